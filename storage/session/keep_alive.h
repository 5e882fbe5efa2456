/* One look at a session, which keep_alive.c makes, and its result. */
#ifndef RLOCKD_STORAGE_SESSION_KEEP_ALIVE_H
#define RLOCKD_STORAGE_SESSION_KEEP_ALIVE_H

#include "storage/session/session_internal.h"
#include "storage/notes/pages.h"
#include "storage/store/lease_record.h"

/* A page of a session's notes. Notes have a total order: by lease id, then by the hash of the
 * ref. So a note that stays is in exactly one page, whatever other notes come and go. */
struct session_cursor {
    size_t limit;
    char lease_id[LEASE_ID_SIZE]; /* the last note of the page before; empty: none */
    uint32_t hash;
};

/* Reads a cursor that session_page_choose() has written; "" is the start. Non-zero: it is
 * neither. */
int session_cursor_parse(struct session_cursor *cursor, const char *text)
    __attribute__((warn_unused_result));
/* Moves the notes of the page to the front, in their order, and returns their number. `next`:
 * the cursor of the next page; empty if this is the last page. */
size_t session_page_choose(const struct session_cursor *cursor, struct session_notes *notes,
                           char next[LIST_CURSOR_SIZE]);

/* A lease that holds, as its lock's home says. */
struct found_lease {
    struct lease_record record;
    int64_t tokens[LOCKS_MAX];
    int64_t remaining_ms;
    bool is_held;
    bool is_unknown;    /* the lock's home has not answered */
    bool has_no_record; /* at the lock's home */
};

/* The losses of a look. */
struct look_losses {
    size_t known_count;      /* that were found before, not yet named by a delivered answer */
    struct lease_ref *known; /* their texts are those that were read */
    size_t count;            /* the known losses, and the losses that this look finds */
    struct session_loss_view *views;
    struct lease_ref *refs; /* their texts are others' */
    bool *is_forced;
};

struct look_call {
    struct store *store;
    session_done *done;
    void *arg;
    char session_id[SESSION_ID_SIZE], name[SESSION_NAME_SIZE];
    bool is_keep_alive, says_held, has_failed;
    bool has_overdue; /* leases that the watchdog should have renewed before */
    bool claims;      /* each lease that it lists: for a keep-alive, its repeated looks too */
    struct session_cursor page; /* of a look that is not for a keep-alive */
    size_t held_count;          /* the lease ids in `held` of the request, sorted */
    char (*held)[LEASE_ID_SIZE];
    struct session_view view;
    int64_t now_ms;       /* by Redis' clock */
    int64_t remaining_ms; /* of the session, since `sent_ns` */
    int64_t sent_ns;
    struct session_reading reading;
    size_t count;           /* of notes */
    struct lease_ref *refs; /* of the notes; their texts are those that were read */
    int64_t *noted_ms;
    struct found_lease *found;
    struct session_verdict_text *verdicts;
    struct look_losses losses;
    struct session_waits_kept *waits; /* of the view; NULL: none */
};

/* waits.c: takes what session_get.lua has read of the session's waits into the view. */
void session_look_take_waits(struct look_call *call, const struct redis_value *reply);
void session_look_free_waits(struct look_call *call);

/* losses.c: the text of a loss for session_forget_losses(). `noted`: what begins with the time
 * when it was noted, or does not. The caller frees it. */
char *session_loss_text(const struct lease_ref *ref, const char *noted);
/* Takes the losses that were read before, next to room for one of each note. */
void session_losses_take(struct look_call *call);
void session_losses_add(struct look_call *call, const struct lease_ref *ref, const char *reason,
                        const char *kind);
/* Asks the lock's home of each lease that was forced out who did that, and why. False: there is
 * no such lease, and `done` will not be called. */
bool session_losses_ask(struct look_call *call, void (*done)(void *arg))
    __attribute__((warn_unused_result));
void session_losses_release(struct look_losses *losses);

/* view.c: for qsort(): the order of lease ids. */
int session_compare_ids(const void *left, const void *right);
/* The place in `held` of the lease; held_count: the client has not named it. */
size_t session_look_find_held(const struct look_call *call, const struct lease_ref *ref);
/* Makes the view of a session that is open, and calls `done`. */
void session_look_show(struct look_call *call);
/* A lock as clients know it, without the operator's prefix, or several locks: then `locks`,
 * which the caller releases, is not NULL. */
const char *session_look_names(const struct store *store, const struct lease_ref *ref,
                               struct lock_names **locks);

#endif
