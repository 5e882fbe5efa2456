/* Enters queues of fair locks into their index. */
#include "storage/notes/queues.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "server/base/clock.h"
#include "storage/notes/notes.h"

enum {
    PLACE_MS = 15000, /* how long a place lasts without a request: lib/fair_queue.lua */
    REPLY_MS = 2000,  /* Redis replies by then, or not at all */
    /* Queues that are known to be visited. A queue that is forgotten is entered again. */
    KNOWN_MAX = 1024
};

struct known_queue {
    UT_hash_handle hh;
    /* As loop_now_ns(): up to here the index has the queue. A visit that finds no place takes
     * the queue out of the index; so a place that comes later is reason for another entry. */
    int64_t until_ns;
    size_t len;
    char name[]; /* in Redis, with a NUL */
};

struct known_queues {
    struct store *store;
    struct known_queue *queues; /* uthash, the first entered in front */
};

static void forget(struct known_queues *known, struct known_queue *queue)
{
    HASH_DEL(known->queues, queue);
    free(queue);
}

static void known_init(void *part, struct store *store)
{
    struct known_queues *known = part;

    known->store = store;
}

static void known_release(void *part)
{
    struct known_queues *known = part;

    while (known->queues != NULL)
        forget(known, known->queues);
}

static const struct store_part known_queues = {
    .size = sizeof(struct known_queues), .init = known_init, .release = known_release};

static struct known_queue *find(const struct known_queues *known, const char *name, size_t len)
{
    struct known_queue *queue;

    HASH_FIND(hh, known->queues, name, len, queue);
    return queue;
}

/* The queue of this name, as the last one entered. */
static struct known_queue *enter(struct known_queues *known, const char *name, size_t len)
{
    struct known_queue *queue = find(known, name, len);

    if (queue != NULL)
        forget(known, queue);
    else if (HASH_COUNT(known->queues) >= KNOWN_MAX)
        forget(known, known->queues);
    queue = calloc(1, sizeof(*queue) + len + 1);
    assert(queue != NULL);
    memcpy(queue->name, name, len);
    queue->len = len;
    HASH_ADD(hh, known->queues, name, len, queue);
    return queue;
}

struct entry_call {
    struct known_queues *known;
    int64_t sent_ns;
    size_t len;
    char name[KEY_NAME_MAX + 1];
};

/* Without a reply the next request for a place asks again. */
static void on_entered(void *arg, const struct redis_result *result)
{
    struct entry_call *call = arg;
    struct known_queue *queue = find(call->known, call->name, call->len);
    int64_t in_ms = value_integer(result->reply);

    if (queue != NULL && result->outcome == REDIS_DONE && in_ms > 0 && in_ms <= PLACE_MS)
        queue->until_ns = call->sent_ns + in_ms * CLOCK_NS_PER_MS;
    free(call);
}

void queue_has_place(struct store *store, const char *name)
{
    struct known_queues *known = store_part(store, &known_queues);
    int64_t now_ns = loop_now_ns(store_loop(store));
    char key[KEY_NAME_MAX + 1];
    size_t len = store_key_name(store, name, key, sizeof(key));
    struct known_queue *queue = find(known, key, len);

    if (queue != NULL && queue->until_ns > now_ns)
        return;
    struct entry_call *call = malloc(sizeof(*call));
    assert(call != NULL);
    *call = (struct entry_call){.known = known, .sent_ns = now_ns, .len = len};
    memcpy(call->name, key, len + 1);
    enter(known, key, len)->until_ns = now_ns + REPLY_MS * CLOCK_NS_PER_MS;
    index_set(store, INDEX_QUEUES, call->name, PLACE_MS, NULL, on_entered, call);
}
