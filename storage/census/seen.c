/* The holders that the walks of the census have seen, by a hash of lock and holder. */
#include "storage/census/seen.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "server/base/text.h"

struct seen_holder {
    UT_hash_handle hh;
    uint64_t key; /* two hashes of 32 bits: of the name, and of the field */
    int64_t since_ms;
    unsigned walk; /* the last one that saw it */
};

void seen_init(struct seen *seen, size_t limit)
{
    assert(limit <= SEEN_MAX);
    *seen = (struct seen){.limit = limit};
}

size_t seen_count(const struct seen *seen)
{
    return HASH_COUNT(seen->holders);
}

int64_t seen_since(struct seen *seen, const char *name, const char *field, int64_t now_ms)
{
    uint64_t key = (uint64_t)text_hash(name, strlen(name)) << 32 |
                   text_hash(field, strlen(field));
    struct seen_holder *holder;

    HASH_FIND(hh, seen->holders, &key, sizeof(key), holder);
    if (holder == NULL) {
        if (seen_count(seen) >= seen->limit)
            return now_ms;
        holder = calloc(1, sizeof(*holder));
        assert(holder != NULL);
        holder->key = key;
        holder->since_ms = now_ms;
        HASH_ADD(hh, seen->holders, key, sizeof(holder->key), holder);
    }
    holder->walk = seen->walk;
    return holder->since_ms;
}

static void forget(struct seen *seen, bool all)
{
    struct seen_holder *holder, *next;

    HASH_ITER(hh, seen->holders, holder, next) {
        if (!all && holder->walk == seen->walk)
            continue;
        HASH_DEL(seen->holders, holder);
        free(holder);
    }
}

void seen_end_walk(struct seen *seen)
{
    forget(seen, false);
    seen->walk++;
}

void seen_forget(struct seen *seen)
{
    forget(seen, true);
}
