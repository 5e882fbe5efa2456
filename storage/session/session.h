/* Sessions on Redis: open, keep alive, look, list, end. A session is one live client process;
 * its leases live as long as it does. The files of the room:
 *
 *   session.c     opens sessions, and forgets losses that a client was told of
 *   keep_alive.c  asks the locks' homes about the leases of a session
 *   losses.c      the losses that a look or a keep-alive names
 *   page.c        one page of the leases that a look shows
 *   waits.c       what the session of a look waits for
 *   view.c        what a look or a keep-alive shows
 *   list.c        lists the open sessions
 *   end.c         ends a session, and releases its leases
 *   visit.c       renews what is due in one session, or works off its end
 *   idle.c        has many sessions visited that have nothing due
 *   queue_visit.c removes places that are over from the queue of one fair lock
 *   watchdog.c    claims the sessions and queues that are due, and visits them
 *
 * handlers/ call the room, and server/worker.c starts the watchdog. The room calls
 * storage/notes/ and storage/store/, and reads replies about leases as storage/lease/ does.
 *
 * Every asynchronous call takes a callback that comes exactly once, never before the call
 * returns. Texts in results belong to the reply: they are gone after the callback. */
#ifndef RLOCKD_STORAGE_SESSION_SESSION_H
#define RLOCKD_STORAGE_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/notes/waits.h"
#include "storage/store/call_outcome.h"
#include "storage/store/store.h"

enum session_outcome {
    SESSION_OPENED, /* now */
    SESSION_OPEN,
    SESSION_RELEASED, /* ended by its client, with all its leases */
    SESSION_ENDED,    /* `reason` */
    SESSION_REUSED,   /* the token opened a session with another ttl_ms, name, on_deadlock */
    SESSION_WAIT_TOO_LONG,
    SESSION_FAILED /* `failure` */
};

struct session_lease_view {
    char lease_id[LEASE_ID_SIZE];
    const char *lock, *owner, *note;   /* lock: as clients say it */
    const char *caller;                /* who acquired it; empty: not known */
    struct lock_names *locks;          /* of several; NULL: `lock` */
    int64_t fencing_tokens[LOCKS_MAX]; /* of them */
    const char *kind;
    int64_t remaining_ms, ttl_ms, fencing_token;
    int64_t held_ms; /* negative: not known */
    bool watchdog;
    bool is_unknown; /* Redis did not answer: only the lease id and the names are known */
};

struct session_loss_view {
    char *text; /* for session_forget_losses() */
    char lease_id[LEASE_ID_SIZE];
    const char *lock;
    struct lock_names *locks; /* as above */
    char reason[LEASE_REASON_SIZE], kind[KIND_NAME_SIZE];
    char *forced; /* of a lease that was forced out: the caller, a newline and the reason; NULL:
                     not known */
};

/* A wait for a lock, of a second or more. */
struct session_waiting_view {
    char lease_id[LEASE_ID_SIZE];
    const char *lock, *owner, *note; /* as above; owner and note may be empty */
    struct lock_names *locks;        /* as above */
    int64_t waited_ms;
};

struct session_view {
    enum session_outcome outcome;
    enum call_outcome failure;
    char reason[LEASE_REASON_SIZE];
    const char *name;
    int64_t remaining_ms, ttl_ms, age_ms;
    int64_t released;   /* leases that its end released */
    bool has_no_leases; /* a keep-alive: alive, but `leases` and `losses` could not be read */
    char next_cursor[LIST_CURSOR_SIZE]; /* of a look; empty: the last page of `leases` */
    size_t lease_count, loss_count;
    const struct session_lease_view *leases;
    enum on_deadlock on_deadlock; /* of a look, as its waits */
    size_t wait_count;
    const struct session_waiting_view *waits;
    const struct session_loss_view *losses; /* that no delivered answer has named */
    /* Leases that the keep-alive named as held and the session has not, nor has lost: Redis
     * lost them, or they were released a moment ago. */
    size_t unknown_count;
    const char (*unknown)[LEASE_ID_SIZE];
};

typedef void session_done(void *arg, const struct session_view *view);

struct session_options {
    bool is_returned; /* the server made the token, some time ago */
    int64_t ttl_ms;
    const char *name;
    enum on_deadlock on_deadlock;
};

void session_open(struct store *store, const char *session_id,
                  const struct session_options *options, session_done *done, void *arg);

/* The parameters of a keep-alive. */
struct session_keep_alive {
    bool is_repeated;    /* it hangs, and looks again: nothing else is said */
    int64_t received_ns; /* its ttl counts from here */
    int64_t wait_ms;     /* at most half of the ttl, else SESSION_WAIT_TOO_LONG */
    bool says_held;      /* `held` is all that its client knows of */
    size_t held_count;
    const char (*held)[LEASE_ID_SIZE];
};

enum { SESSION_HELD_MAX = 400 }; /* as many lease ids as a body has room for */

/* Asks the home of each lease of the session. When the session's home has answered, the
 * outcome is SESSION_OPEN, and a lease whose home does not answer is unknown. A lease that a
 * keep-alive lists as held is not withdrawn any more; the losses that it finds are kept until
 * an answer with them was delivered. */
void session_keep_alive(struct store *store, const char *session_id,
                        const struct session_keep_alive *keep_alive, session_done *done,
                        void *arg);
/* The same for a client that only looks: at most `limit` leases, behind `cursor`; "": the first
 * leases. Non-zero: that is no cursor, and `done` does not come. */
int session_look(struct store *store, const char *session_id, size_t limit, const char *cursor,
                 session_done *done, void *arg) __attribute__((warn_unused_result));
/* These losses have reached the client. Each text is a ref; in a quorum epoch ms when the loss
 * was noted, where that is known, and a blank stand before it. */
void session_forget_losses(struct store *store, const char *session_id, char *const *texts,
                           size_t count);
/* Ends it and releases all its leases, in as many steps as it takes. */
void session_end(struct store *store, const char *session_id, session_done *done, void *arg);
/* The same for an operator: the client of the session learns that it has lost its leases. */
void session_force_end(struct store *store, const char *session_id, session_done *done,
                       void *arg);

struct session_list_entry {
    char session_id[SESSION_ID_SIZE], name[SESSION_NAME_SIZE];
    int64_t remaining_ms, ttl_ms, age_ms, lease_count;
};

struct session_list {
    enum call_outcome outcome; /* CALL_DONE, or why not */
    size_t count;
    const struct session_list_entry *entries;
    char next_cursor[LIST_CURSOR_SIZE]; /* empty: this was the last page */
};

typedef void session_list_done(void *arg, const struct session_list *list);

/* Open sessions, in no order, at most `limit`. Non-zero: that is no cursor, and `done` does not
 * come. */
int session_list(struct store *store, size_t limit, const char *cursor, session_list_done *done,
                 void *arg) __attribute__((warn_unused_result));

#endif
