/* Shared by the files of a connection, each of which needs only those above it:
 *
 *   link_state.c    what the connection is at, and why it is not usable
 *   link_calls.c    the calls under way: their memory, their deadline, their end
 *   link_tls.c      a connection with TLS
 *   link_command.c  sends commands, and sorts their replies
 *   link_push.c     channels, and their messages
 *   link_sync.c     holds replies until replicas have confirmed the changes
 *   link_script.c   sends scripts
 *   link_checks.c   checks the server that answers
 *   link_connect.c  makes a connection, and notes its end
 *   link.c          its life, its turns, and the times of its reconnects
 *
 * A part of the struct is written by the file that it names. */
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
    LINK_CLOSING, /* hiredis is running the pending callbacks */
    LINK_STATES
};

enum { REDIS_REASON_SIZE = 128, LINK_BACKOFF_FIRST_MS = 50 };

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

/* link_calls.c */
struct link_calls {
    struct redis_call *pending;
    struct pool pool;           /* of those with short arguments */
    size_t gathered;            /* commands that wait to be sent, together */
    struct redis_call *refused; /* could not be sent: `refuse` tells them so */
    struct timer refuse;
};

/* link_tls.c */
struct link_tls {
    struct tls_session *session; /* NULL: in the clear, or not connected yet */
    bool is_secure;              /* the handshake is done */
    bool is_unread;              /* `session` has more bytes than one turn may read */
    void (*secured)(struct redis_link *link);
};

/* link_command.c */
struct link_writes {
    bool are_refused; /* MISCONF: Redis cannot save, and refuses writes */
    bool may_ping;
};

/* link_push.c */
struct link_push_to {
    redis_link_pushed *pushed;
    void *arg;
};

/* link_sync.c */
struct link_sync {
    struct redis_call *held; /* answered, until a WAIT is */
    bool is_wanted;          /* a script was sent whose answer is to be held */
    bool is_waiting;         /* a WAIT is under way */
    bool lacks_replicas;     /* the last WAIT was answered with too few replicas */
};

/* link_checks.c: of the attempt under way */
struct link_checks {
    size_t probed;       /* slots of the probe that were asked for */
    bool probed_text;    /* the probe ran as EVAL; it is tried as EVALSHA next */
    unsigned edition;    /* of the probe, when these checks began */
    bool is_unconfirmed; /* all checks have passed, and options.confirm was called */
    /* These become redis_link.server's when the connection is up. */
    char run_id[REDIS_RUN_ID_SIZE], promotion[REDIS_RUN_ID_SIZE];
    int64_t client_id;
    int64_t last_client_id; /* of the last connection that was up, and may have carried
                               commands: the connection's id there; 0: none yet */
};

/* link_connect.c; link_state.c forgets what was prepared. */
struct link_attempt {
    struct redis_preparation *preparation; /* NULL when up, and between attempts */
    size_t tried;                          /* of the addresses prepared */
    bool is_open; /* the socket is, or was, connected in this attempt */
};

struct redis_link {
    struct redis_link_options options;
    enum link_state state;
    redisAsyncContext *context; /* NULL while disconnected; hiredis frees it */
    struct redis_guard guard;
    struct loop_watch socket;
    uint32_t watched_events;
    bool write_wanted; /* hiredis has bytes to send */
    bool give_up;      /* at the end of this turn */
    bool stopped;
    bool is_explained; /* the end of this attempt or connection: `reason` says why */
    char reason[REDIS_REASON_SIZE];
    struct loop_hook turn;
    struct timer retry, deadline;
    int64_t backoff_ms;
    /* Redis' process of the last connection that was up. */
    struct redis_server server;
    bool was_up; /* since redis_link_went_down() */
    struct link_calls calls;
    struct link_tls tls;
    struct link_writes writes;
    struct link_push_to push;
    struct link_sync sync;
    struct link_checks checks;
    struct link_attempt attempt;
};

/* link_state.c */
/* Every change of the state. Asserts that the state may follow, and what holds in it. */
void redis_link_enter(struct redis_link *link, enum link_state state);
void redis_link_note_reason(struct redis_link *link, const char *reason);
/* `detail`, for the log alone, may be NULL. */
void redis_link_note_detail(struct redis_link *link, const char *reason, const char *detail);
void redis_link_watch_events(struct redis_link *link, uint32_t epoll_events);
/* To be called when a reply shows that this Redis cannot serve any more (a replica now, …). */
void redis_link_leave(struct redis_link *link, const char *reason);
/* An attempt to connect has failed, and the next attempt is for another address of the same
 * name. */
bool redis_link_has_more_addresses(const struct redis_link *link);
void redis_link_forget_prepared(struct redis_link *link);
/* Gives the step of the attempt that begins now its time. */
void redis_link_arm_deadline(struct redis_link *link);

/* link_calls.c */
void redis_link_calls_init(struct redis_link *link);
/* Frees the kept blocks of calls, when the last call has ended. */
void redis_link_calls_release(struct redis_link *link);
/* One block for the call and its formatted arguments; `script` NULL: there are none. */
struct redis_call *redis_call_new(struct redis_link *link, const struct script_call *script,
                                  redis_done *done, void *arg);
/* Frees a call that is in no list, without calling it back. */
void redis_call_free(struct redis_call *call);
/* Ends a call that is in no list any more. */
void redis_call_end(struct redis_call *call, const struct redis_result *result);
/* Takes `len` bytes that were sent out of hiredis' buffer, and keeps its memory for the next
 * commands: hiredis frees the buffer after a write of its own, and a new one grows by steps. */
void redis_link_drop_sent(struct redis_link *link, size_t len);
/* Sends the gathered commands, as far as the socket takes them; not with TLS. Runs no callback:
 * hiredis comes across an error by itself, at the end of the turn. */
void redis_link_write(struct redis_link *link);
/* The call has been sent. */
void redis_call_await(struct redis_call *call);
/* Ends the call soon, as not executed. */
void redis_call_refuse_later(struct redis_call *call);
/* Ends the calls that could not be sent. */
void redis_link_refuse_calls(void *link);
void redis_link_watch_deadline(struct redis_link *link);
/* One more command is to be sent. True: there are enough for a write in the midst of a turn. */
bool redis_link_has_gathered(struct redis_link *link) __attribute__((warn_unused_result));
/* When Redis is late. */
int64_t redis_link_due_ns(const struct redis_link *link);
/* All gathered commands were written, as far as the socket takes them: from now on Redis has to
 * answer. */
void redis_link_note_written(struct redis_link *link);
/* At the end of a turn, before the gathered commands are sent. */
void redis_link_turn_calls(struct redis_link *link);

/* RESP2: an array of bulk strings. hiredis writes it, too, and takes an eighth of a request's
 * time for it. */
enum {
    /* The bytes around one argument: $, its length, two line ends. */
    REDIS_ARGUMENT_EXTRA = 26,
    /* The line that says how many arguments follow. */
    REDIS_COUNT_SIZE = 24
};
/* Each function writes at `out`, where the caller has left room, and returns the end of the
 * text. */
char *redis_format_count(char *out, size_t argument_count);
char *redis_format_argument(char *out, const char *text, size_t len);

/* link_tls.c */
/* The socket has been connected. `secured` comes when the handshake is done. */
void redis_link_begin_tls(struct redis_link *link, void (*secured)(struct redis_link *link));
void redis_link_end_tls(struct redis_link *link);
/* Sends the gathered commands; runs no callback. */
void redis_link_write_records(struct redis_link *link);
/* At the end of a turn. */
void redis_link_turn_tls(struct redis_link *link);

/* link_command.c */
/* Takes a call that is answered out of `pending`. False: the connection is lost, hiredis tells
 * every pending call so, and this call has ended. */
bool redis_call_take_reply(struct redis_call *call, const redisReply *reply)
    __attribute__((warn_unused_result));
/* The result of the call. Notes what the reply means for the connection. */
struct redis_result redis_call_sort(const struct redis_call *call, const redisReply *reply);
/* After the end of a call: a connection that is left is closed behind its last reply. */
void redis_link_close_if_left(struct redis_link *link);
/* A new connection: Redis takes writes, until it refuses a write. */
void redis_link_reset_writes(struct redis_link *link);

/* link_sync.c */
/* Before a script is sent: whether its answer will be held. */
void redis_link_prepare_sync(struct redis_call *call, const struct script_row *row);
/* The script is sent, perhaps again. */
void redis_link_note_sync(struct redis_call *call);
/* Takes a call that was answered, to be ended by a WAIT. */
void redis_link_hold(struct redis_call *call, const void *reply);
/* At the end of a turn, before the gathered commands are sent. */
void redis_link_turn_sync(struct redis_link *link);
/* The connection is lost: the outcome of all held replies is unknown. */
void redis_link_lose_held(struct redis_link *link);

/* link_script.c */
/* Sends the probe, while the connection is still being checked. `done` gets the link. */
int redis_link_send_probe(struct redis_link *link, const struct script_args *args, bool as_text,
                          redis_done *done) __attribute__((warn_unused_result));

/* link_checks.c */
/* A new attempt: nothing is known of the server. */
void redis_link_reset_checks(struct redis_link *link);
/* Logs in and makes the checks; then the connection is up, or redis_link_reconnect() is called.
 */
void redis_link_check(struct redis_link *link);

/* link_connect.c */
/* Begins an attempt to connect, or goes on with an attempt whose preparation has ended. */
void redis_link_connect(struct redis_link *link);
/* The addresses that are left are of a server that is not to be used any more. */
void redis_link_skip_addresses(struct redis_link *link);
/* The attempt, or the connection, is over: another follows. */
void redis_link_went_down(struct redis_link *link);
/* The name of the reply that did not come before the deadline. */
const char *redis_link_late_reason(const struct redis_link *link);

#endif
