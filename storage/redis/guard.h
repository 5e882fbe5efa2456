/* Looks at replies while hiredis reads them, and ends the connection instead of letting through
 * what hiredis would fail an assertion for: a reply that nobody asked for, a message of pub/sub
 * that has the wrong form, or a form that RESP2 does not have. */
#ifndef RLOCKD_STORAGE_REDIS_GUARD_H
#define RLOCKD_STORAGE_REDIS_GUARD_H

#include <hiredis/async.h>
#include <stdbool.h>

struct redis_guard {
    redisReplyObjectFunctions guarded, plain;
    redisAsyncContext *context;
    bool refused; /* the connection ends for what Redis sent */
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
/* True when what has come and is not a whole reply yet is more than any reply may have. */
bool redis_guard_is_flooded(const struct redis_guard *guard);

#endif
