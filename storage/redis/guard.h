/* Checks replies while hiredis reads them. Ends the connection at a reply for which hiredis
 * would fail an assertion: a reply without a command, a message of pub/sub in a wrong form, or
 * a type that RESP2 does not have. */
#ifndef RLOCKD_STORAGE_REDIS_GUARD_H
#define RLOCKD_STORAGE_REDIS_GUARD_H

#include <hiredis/async.h>
#include <stdbool.h>

struct redis_guard {
    redisReplyObjectFunctions guarded, plain;
    redisAsyncContext *context;
    bool refused; /* the connection ends because of the bytes that Redis sent */
    enum {
        GUARD_OTHER,
        GUARD_SUBSCRIBE,
        GUARD_SHARD_SUBSCRIBE,
        GUARD_UNSUBSCRIBE,
        GUARD_SHARD_UNSUBSCRIBE,
        GUARD_MESSAGE,
        GUARD_SHARD_MESSAGE
    } kind;
    /* Whether an answer to SUBSCRIBE or SSUBSCRIBE is awaited for this channel. */
    bool (*awaits)(void *arg, const char *channel, size_t len);
    void *arg;
};

/* Guards this context from now on; the guard must outlive it. `awaits` and `arg` are kept. */
void redis_guard_watch(struct redis_guard *guard, redisAsyncContext *context);
/* True when the bytes of an unfinished reply are more than any reply may have. */
bool redis_guard_is_flooded(const struct redis_guard *guard);

#endif
