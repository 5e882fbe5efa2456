/* What the files of the Redis connection share: redis.c keeps the connection alive,
 * redis_call.c sends commands and matches their replies, redis_reply.c reads replies. */
#ifndef RLOCKD_STORAGE_REDIS_INTERNAL_H
#define RLOCKD_STORAGE_REDIS_INTERNAL_H

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include "server/pool.h"
#include "storage/redis.h"

enum redis_state {
    REDIS_DISCONNECTED, /* until the retry timer fires */
    REDIS_CONNECTING,   /* the socket is connecting, or the first commands are under way */
    REDIS_UP,
    REDIS_LEAVING, /* sends nothing more; given up when the last reply is there */
    REDIS_CLOSING  /* hiredis is running the pending callbacks */
};

enum { REDIS_REASON_SIZE = 128, REDIS_RUN_ID_SIZE = 48 };

/* A command whose reply is awaited, in the order of sending. */
struct redis_call {
    struct redis_call *prev, *next;
    struct redis *redis;
    redis_done *done;
    void *arg;
    int64_t sent_ns;
    enum script script;
    bool pooled;
    size_t key_count, argc;
    size_t args_len; /* of a script's formatted arguments, kept in case it has to be sent as
                        EVAL; 0: no script */
    char args[];
};

struct redis {
    struct redis_options options;
    enum redis_state state;
    redisAsyncContext *context; /* NULL while disconnected; hiredis frees it */
    struct loop_watch socket;
    uint32_t watched_events;
    bool write_wanted; /* hiredis has something to send */
    size_t gathered;   /* commands that wait to be sent, together */
    bool give_up;      /* at the end of this turn */
    bool stopped;
    struct loop_hook turn;
    struct timer retry, deadline;
    int64_t backoff_ms;
    struct redis_call *calls;
    struct pool call_pool;      /* of those with short arguments */
    struct redis_call *refused; /* could not be sent: `refuse` tells them so */
    struct timer refuse;
    char reason[REDIS_REASON_SIZE];
    /* The last connection that was up, and may have carried commands: Redis' process and its id
     * there (0: none yet). The new ones become these when the connection is up. */
    char run_id[REDIS_RUN_ID_SIZE], new_run_id[REDIS_RUN_ID_SIZE];
    int64_t client_id, new_client_id;
    redis_pushed *pushed;
    void *pushed_arg;
};

/* redis.c */
void redis_note_reason(struct redis *redis, const char *reason);
/* To be called when a reply shows that this Redis cannot serve any more (a replica now, …). */
void redis_leave(struct redis *redis, const char *reason);

/* redis_call.c */
void redis_calls_init(struct redis *redis);
/* Frees what was kept for others, when the last call has ended. */
void redis_calls_release(struct redis *redis);
/* Sends the probe, while the connection is still being checked. `done` gets `redis`. */
int redis_send_probe(struct redis *redis, size_t key_count, size_t argc,
                     const char *const *args, const size_t *lens, redis_done *done);
void redis_watch_deadline(struct redis *redis);
/* Ends the calls that could not be sent. */
void redis_refuse_calls(void *redis);

/* redis_reply.c */
/* The part of an error that begins with its word, also where Redis 6.2 wraps a script's error.
 */
const char *redis_error_cause(const char *error);

#endif
