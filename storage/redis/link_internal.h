/* Shared by the files of a connection: link.c keeps the connection alive, link_connect.c makes
 * a new one, link_tls.c encrypts it, link_checks.c checks the server, call.c sends commands and
 * matches their replies, link_sync.c holds replies until replicas have confirmed the
 * changes. */
#ifndef RLOCKD_STORAGE_REDIS_LINK_INTERNAL_H
#define RLOCKD_STORAGE_REDIS_LINK_INTERNAL_H

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include "server/base/pool.h"
#include "storage/redis/guard.h"
#include "storage/redis/link.h"
#include "storage/redis/prepare.h"
#include "storage/redis/tls_session.h"

enum link_state {
    LINK_DISCONNECTED, /* until the retry timer fires */
    LINK_CONNECTING, /* a server is looked for, or prepared, or connects, or its first commands
                        are under way */
    LINK_UP,
    LINK_LEAVING, /* sends no further command; closed when the last reply has arrived */
    LINK_CLOSING  /* hiredis is running the pending callbacks */
};

enum { REDIS_REASON_SIZE = 128 };

/* A command whose reply is awaited, in the order of sending. */
struct redis_call {
    struct redis_call *prev, *next;
    struct redis_link *link;
    redis_done *done;
    void *arg;
    int64_t sent_ns;
    int64_t written_ns; /* when the first write after that took it to the socket; 0: not yet */
    enum script script;
    bool pooled;
    bool is_unsendable;     /* there was no memory for its arguments */
    bool is_sync;           /* its reply is held until replicas have confirmed the change */
    redisReply *held_reply; /* a copy of it */
    size_t key_count, argc;
    size_t args_len; /* of a script's formatted arguments, kept in case it has to be sent as
                        EVAL; 0: no script */
    char args[];
};

struct redis_link {
    struct redis_link_options options;
    enum link_state state;
    redisAsyncContext *context; /* NULL while disconnected; hiredis frees it */
    struct redis_guard guard;
    struct redis_preparation *preparation; /* NULL when up, and between attempts */
    size_t tried;                          /* of the addresses prepared */
    struct tls_session *tls;               /* NULL: in the clear, or not connected yet */
    bool is_secure;                        /* the handshake is done */
    bool is_unread;                        /* `tls` has more bytes than one turn may read */
    struct loop_watch socket;
    uint32_t watched_events;
    bool write_wanted; /* hiredis has bytes to send */
    size_t gathered;   /* commands that wait to be sent, together */
    bool give_up;      /* at the end of this turn */
    bool stopped;
    bool probed_text;    /* the probe ran as EVAL; it is tried as EVALSHA next */
    bool writes_refused; /* MISCONF: Redis cannot save, and refuses writes */
    bool may_ping;
    struct loop_hook turn;
    struct timer retry, deadline;
    int64_t backoff_ms;
    struct redis_call *calls;
    struct pool call_pool;      /* of those with short arguments */
    struct redis_call *held;    /* answered, until a WAIT is */
    bool wait_wanted;           /* a script was sent whose answer is to be held */
    bool is_waiting;            /* a WAIT is under way */
    bool lacks_replicas;        /* the last WAIT was answered with too few replicas */
    struct redis_call *refused; /* could not be sent: `refuse` tells them so */
    struct timer refuse;
    bool is_open;        /* the socket is, or was, connected in this attempt */
    bool is_unconfirmed; /* all checks have passed, and options.confirm was called */
    bool is_explained;   /* the end of this attempt or connection: `reason` says why */
    char reason[REDIS_REASON_SIZE];
    /* The last connection that was up, and may have carried commands: Redis' process and the
     * connection's id there (0: none yet). The new ones become these when the connection is up.
     */
    struct redis_server server;
    bool was_up; /* since redis_link_went_down() */
    char new_run_id[REDIS_RUN_ID_SIZE], new_promotion[REDIS_RUN_ID_SIZE];
    size_t probed; /* slots of the probe that were asked for */
    int64_t client_id, new_client_id;
    redis_link_pushed *pushed;
    void *pushed_arg;
};

/* link.c */
void redis_link_note_reason(struct redis_link *link, const char *reason);
/* `detail`, for the log alone, may be NULL. */
void redis_link_note_detail(struct redis_link *link, const char *reason, const char *detail);
void redis_link_watch_events(struct redis_link *link, uint32_t epoll_events);
/* The attempt, or the connection, is over: another follows. */
void redis_link_went_down(struct redis_link *link);
/* To be called when a reply shows that this Redis cannot serve any more (a replica now, …). */
void redis_link_leave(struct redis_link *link, const char *reason);

/* Every check of the connection has passed. */
void redis_link_became_up(struct redis_link *link);

/* link_connect.c */
/* Begins an attempt to connect, or goes on with an attempt whose preparation has ended. */
void redis_link_connect(struct redis_link *link);
/* An attempt to connect has failed, and the next attempt is for another address of the same
 * name. */
bool redis_link_has_more_addresses(const struct redis_link *link);
void redis_link_forget_prepared(struct redis_link *link);
/* Gives the step of the attempt that begins now its time. */
void redis_link_arm_deadline(struct redis_link *link);
/* What it was that did not come before the deadline. */
const char *redis_link_late_reason(const struct redis_link *link);

/* link_tls.c */
/* The socket has been connected. */
void redis_link_begin_tls(struct redis_link *link);
void redis_link_end_tls(struct redis_link *link);
/* Sends the gathered commands; runs no callback. */
void redis_link_write_records(struct redis_link *link);
/* At the end of a turn. */
void redis_link_turn_tls(struct redis_link *link);

/* link_checks.c */
/* Logs in and makes the checks; then calls redis_link_became_up() or redis_link_reconnect(). */
void redis_link_check(struct redis_link *link);

/* link_sync.c */
/* Whether the answer of a script is held. */
bool redis_link_is_sync(const struct redis_link *link, enum script script);
/* Takes a call that was answered out of `calls`, to be ended by a WAIT. */
void redis_link_hold(struct redis_call *call, const void *reply);
/* At the end of a turn, before the gathered commands are sent. */
void redis_link_turn_sync(struct redis_link *link);
/* The connection is lost: the outcome of all held replies is unknown. */
void redis_link_lose_held(struct redis_link *link);

/* call.c */
/* Ends a call that is in no list any more. */
void redis_link_finish(struct redis_call *call, const struct redis_result *result);
void redis_link_calls_init(struct redis_link *link);
/* Frees the kept blocks of calls, when the last call has ended. */
void redis_link_calls_release(struct redis_link *link);
/* Sends the probe, while the connection is still being checked. `done` gets the link. */
int redis_link_send_probe(struct redis_link *link, const struct script_args *args, bool as_text,
                          redis_done *done) __attribute__((warn_unused_result));
void redis_link_watch_deadline(struct redis_link *link);
/* All gathered commands were written, as far as the socket takes them: from now on Redis has to
 * answer. */
void redis_link_note_written(struct redis_link *link);
/* Ends the calls that could not be sent. */
void redis_link_refuse_calls(void *link);

#endif
