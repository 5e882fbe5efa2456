/* A session's home: the leases of the session that have waited for long, so that whoever
 * follows the holder of a lock finds what the holder waits for. A note ends by itself unless it
 * is made again: the front end of the request may be gone. */
#ifndef RLOCKD_STORAGE_NOTES_WAITS_H
#define RLOCKD_STORAGE_NOTES_WAITS_H

#include "storage/store/call_outcome.h"
#include "storage/store/store.h"

enum {
    SESSION_WAITS_MAX = 50,      /* notes of a session; further waits are not noted */
    SESSION_WAIT_LIFE_MS = 20000 /* of a note that is not made again */
};

/* How a session treats a request that would wait for ever. */
enum on_deadlock { ON_DEADLOCK_TELL, ON_DEADLOCK_REFUSE };
/* ON_DEADLOCK_REFUSE in the session's hash; ON_DEADLOCK_TELL has no word there. */
#define ON_DEADLOCK_WORD "refuse"

struct session_wait_noted {
    enum call_outcome outcome;
    bool is_noted;    /* the session is open, and has room for the note */
    int64_t since_ms; /* by Redis' clock: when the wait began */
    enum on_deadlock on_deadlock;
};

typedef void session_wait_done(void *arg, const struct session_wait_noted *noted);

/* Notes that the lease, which has a session, has waited for `waited_ms` and still waits.
 * `wait_id`: of this wait alone. `question`: of session_waits_read(), to be answered; NULL:
 * none. Reads of the lease: kind, names, session_id, id, owner, note. `done` comes exactly
 * once, never before this returns. */
void session_wait_note(struct store *store, const struct lease *lease, const char *wait_id,
                       int64_t waited_ms, const char *question, session_wait_done *done,
                       void *arg);
/* The wait is over. Should that not reach Redis, the note ends by itself. */
void session_wait_end(struct store *store, const char *session_id, const char *wait_id);

struct session_wait_view {
    const char *wait_id, *owner, *note;
    int64_t since_ms;
    const char *answered; /* questions, with a blank behind each */
    const char *ref;      /* for lease_ref_copy() */
    size_t ref_len;
};

struct session_waits {
    enum call_outcome outcome;
    const char *session_name;
    size_t count; /* 0: the session is not open, or nothing of it has waited for long */
    const struct session_wait_view *waits;
};

/* Of a value `waits` that a script replied. The texts belong to the reply. Returns the number
 * of views, at most SESSION_WAITS_MAX. */
size_t session_wait_views_read(const struct redis_value *list,
                               struct session_wait_view views[SESSION_WAITS_MAX]);
enum on_deadlock session_on_deadlock_read(const struct redis_value *value);

typedef void session_waits_done(void *arg, const struct session_waits *waits);

/* Reads the long waits of an owner of a session; "": those of its leases without an owner.
 * `question`: of the caller's making, published for the front ends of these waits; NULL: none.
 * `done` comes exactly once, never before this returns; the texts are gone after it. */
void session_waits_read(struct store *store, const char *session_id, const char *owner,
                        const char *question, session_waits_done *done, void *arg);

#endif
