/* Runs one script at the home of each lease of a session, or one for several leases: a few at a
 * time, in no order. The sessions that are visited take turns, and the visits to one session
 * follow each other, so that no session gets more turns by more requests. */
#ifndef RLOCKD_STORAGE_STORE_VISITS_H
#define RLOCKD_STORAGE_STORE_VISITS_H

#include "storage/store/lease_ref.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"

/* The lines of visits. A worker bounds the scripts under way of each line on its own, so that
 * keep-alives do not wait for those that only look. */
enum visit_line_id {
    VISIT_DUTIES, /* the watchdog's, and ends of sessions */
    VISIT_KEEP_ALIVES,
    VISIT_LOOKS,
    VISIT_LINES
};

/* No script of visits takes more; what LEASE_WATCH_ARGS does not count is left out if empty. */
enum { LEASE_VISIT_ARGS = LEASE_END_ARGS };

/* Its KEYS are the lock and the lease's record there, and the counter if `has_counter`, for
 * each lock; its ARGV the lease id, the session id and `arguments`. If `is_shared`, one script
 * serves several leases: no lease id in ARGV, and the reply is one for all of them or an array
 * of one each. */
struct lease_visit_job {
    enum script script;
    enum visit_line_id line;
    const char *session_id; /* whose leases they are; must stay valid until `done` */
    bool has_counter;
    bool is_shared; /* one script for several leases, each of one lock */
    /* Numbers and short words, by the position of each argument; the ids are put in. */
    char arguments[LEASE_VISIT_ARGS][TEXT_INT64_SIZE];
};

/* lease_end.lua, for this reason. */
struct lease_visit_job lease_end_job(const struct store *store, enum visit_line_id line,
                                     const char *session_id, const char *reason);

/* The reply of the home of refs[i]. */
typedef void lease_visited(void *arg, size_t i, const struct redis_result *result);
/* Every home has replied. */
typedef void lease_visits_done(void *arg);

/* `refs` must stay valid until `done`, which is called once and never before this returns. A
 * text that is no ref is left out, and each lease i for which is_wanted[i] is false; NULL:
 * every lease is visited. False: there is no lease to visit, and `done` is not called. */
bool lease_visits_start(struct store *store, const struct lease_visit_job *job,
                        const struct lease_ref *refs, size_t count, const bool *is_wanted,
                        lease_visited *visited, lease_visits_done *done, void *arg)
    __attribute__((warn_unused_result));

#endif
