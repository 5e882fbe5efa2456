/* The memory that other rooms keep in a store. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include <utlist.h>

#include "storage/store/store_internal.h"

struct kept_part {
    struct kept_part *next; /* utlist */
    const struct store_part *part;
    max_align_t memory[];
};

void *store_part(struct store *store, const struct store_part *part)
{
    struct kept_part *kept;

    LL_FOREACH(store->parts, kept) {
        if (kept->part == part)
            return kept->memory;
    }
    kept = calloc(1, sizeof(*kept) + part->size);
    assert(kept != NULL);
    kept->part = part;
    if (part->init != NULL)
        part->init(kept->memory, store);
    LL_PREPEND(store->parts, kept);
    return kept->memory;
}

/* A part that is released may call back, and so ask for a part again. */
void store_parts_release(struct store *store)
{
    while (store->parts != NULL) {
        struct kept_part *kept = store->parts;
        LL_DELETE(store->parts, kept);
        if (kept->part->release != NULL)
            kept->part->release(kept->memory);
        free(kept);
    }
}
