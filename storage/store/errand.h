/* An errand: a script that is sent again until Redis has confirmed it. A script that Redis
 * refused (a replica, a slow script) is sent again after half a second, and every script
 * without a confirmation as soon as Redis is usable again. */
#ifndef RLOCKD_STORAGE_STORE_ERRAND_H
#define RLOCKD_STORAGE_STORE_ERRAND_H

#include <stdbool.h>
#include <stdint.h>

#include "storage/redis/call.h"

struct store;
struct store_call;

/* Errands of the first rank are sent again before those of the second. */
enum errand_rank {
    ERRAND_FREES, /* what a waiter may get: a lock, a permit */
    ERRAND_TIDIES,
    ERRAND_RANKS
};

/* Common to the errands of one sort. `arg` is the errand's. */
struct errand_job {
    enum errand_rank rank;
    /* Begins the call and fills it in. Called for each time that the script is sent. */
    struct store_call *(*fill)(struct store *store, void *arg);
    /* Redis has run the script, or will never run it, as a key has another type by now. Comes
     * at most once, then end() follows. NULL: nothing is to be done. */
    void (*confirmed)(void *arg, const struct redis_result *result);
    /* Frees the errand, which was confirmed or has expired, or whose store ends. */
    void (*end)(void *arg);
};

/* Part of its owner's struct; the store fills it in. */
struct errand {
    const struct errand_job *job;
    void *arg;
    struct store *store;
    struct errand *prev, *next; /* utlist */
    int64_t expires_ns;         /* loop_now_ns() after which the script is not sent again */
    bool in_flight;
};

/* Sends the script, now and as often as it takes within `ttl_ns`; INT64_MAX: however long that
 * is. No callback but fill() is called before this returns. */
void errand_start(struct store *store, struct errand *errand, const struct errand_job *job,
                  void *arg, int64_t ttl_ns);

#endif
