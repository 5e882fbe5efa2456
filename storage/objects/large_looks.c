#include "storage/objects/large_looks.h"

#include <utlist.h>

#include "server/base/clock.h"
#include "storage/objects/lock_store_internal.h"

enum { UNDER_WAY_MAX = 2, WAITING_MAX = 1000, WAIT_MAX_MS = 2000 };

static void begin(struct lock_store *store, struct large_look *look)
{
    store->large_looks_under_way++;
    look->begin(look->arg, true);
}

static struct large_look *take_oldest(struct lock_store *store)
{
    struct large_look *oldest = store->waiting_large_looks;

    DL_DELETE(store->waiting_large_looks, oldest);
    store->waiting_large_look_count--;
    return oldest;
}

void large_look_start(struct lock_store *store, struct large_look *look)
{
    look->since_ns = loop_now_ns(store->options.loop);
    if (store->large_looks_under_way < UNDER_WAY_MAX && store->waiting_large_looks == NULL) {
        begin(store, look);
        return;
    }
    DL_APPEND(store->waiting_large_looks, look);
    if (++store->waiting_large_look_count > WAITING_MAX) {
        struct large_look *oldest = take_oldest(store);
        oldest->begin(oldest->arg, false);
    }
}

void large_look_end(struct lock_store *store)
{
    int64_t now_ns = loop_now_ns(store->options.loop);

    store->large_looks_under_way--;
    while (store->large_looks_under_way < UNDER_WAY_MAX && store->waiting_large_looks != NULL) {
        struct large_look *look = take_oldest(store);
        if (now_ns - look->since_ns > WAIT_MAX_MS * CLOCK_NS_PER_MS)
            look->begin(look->arg, false);
        else
            begin(store, look);
    }
}
