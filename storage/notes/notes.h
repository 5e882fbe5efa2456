/* A session's home, as the rooms that work on it see it. The files of the room:
 *
 *   bind.c       notes a lease before its lock is asked for; settles the note of one lease
 *   unbind.c     forgets an attempt, or a lease that is over
 *   settle.c     writes what the locks' homes say about leases
 *   pages.c      reads notes and losses, page by page
 *   index.c      when each session, and the queue of each fair lock, is to be visited
 *   queues.c     has the queues of fair locks visited
 *   log.c        log lines about expired sessions and lost leases
 *   waits.c      the leases that have waited for long
 *   set_names.c  the names of a set of locks, by its lease id
 *
 * storage/lease/, storage/session/ and storage/wait/ call the room; handlers/ call set_names.h
 * and read limits of bind.h. The room calls storage/store/. */
#ifndef RLOCKD_STORAGE_NOTES_NOTES_H
#define RLOCKD_STORAGE_NOTES_NOTES_H

#include "storage/notes/bind.h"
#include "storage/notes/queues.h"
#include "storage/store/lease_ref.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"

enum {
    INDEX_PARTITIONS = 16, /* of each index */
    /* Leases that one call names: some tenths of a millisecond of Redis' thread. */
    SESSION_BATCH = 60
};

/* What the watchdog visits; the members of each index. */
enum visit_index {
    INDEX_SESSIONS, /* session ids */
    INDEX_QUEUES,   /* the names in Redis of fair locks with places */
    INDICES
};

/* Fills in the key of a partition, as number `at` of the KEYS of a script of the index. */
void index_key(struct store_call *call, size_t at, enum visit_index index, size_t partition);
/* The same of the partition that has this session. */
void session_index_key(struct store_call *call, size_t at, const char *session_id);
/* The name of a partition: a digit. Of the index of sessions it is the first one of their ids.
 */
struct key_base index_partition(size_t partition);

/* Instead of a claim: only where the index has lost the member. */
#define SESSION_NOT_INDEXED "-"

/* Tells the watcher that the member is to be visited in `in_ms`: see index_watch(). */
void index_expect(struct store *store, enum visit_index index, const char *member,
                  int64_t in_ms);
/* index_set.lua. `in_ms` negative: the member leaves the index. `claim`: NULL, or the claim
 * under which the member is visited, or SESSION_NOT_INDEXED. `done` may be NULL. */
void index_set(struct store *store, enum visit_index index, const char *member, int64_t in_ms,
               const char *claim, redis_done *done, void *arg);
/* The same for a session. */
void session_index_set(struct store *store, const char *session_id, int64_t in_ms,
                       const char *claim, redis_done *done, void *arg);

/* A visit to a member of this partition is to come in `in_ms`. */
typedef void index_visit_expected(void *arg, enum visit_index index, size_t partition,
                                  int64_t in_ms);

/* index_expect() of this store calls `expect` from now on, index_set() does, too; NULL: it
 * calls nobody. */
void index_watch(struct store *store, index_visit_expected *expect, void *arg);

/* Whether a lease that ended for this reason is a lost lease, so that a keep-alive has to name
 * it. */
bool session_reason_is_loss(const char *reason);

/* unbind.c: session_unbind() of a lease that is over. */
void session_unbind_ref(struct store *store, const char *session_id,
                        const struct lease_ref *ref);

/* --- settle.c --------------------------------------------------------------------- */

struct session_verdict_text {
    char text[48];  /* a verdict for session_settle.lua; empty: none */
    bool is_marked; /* "renewed", of a lease whose score has the half of marked leases */
};

/* The watchdog renewed the lease. `is_marked`: the lease's score said that its note has the
 * mark of renewed leases. */
void session_verdict_renewed(struct session_verdict_text *verdict, const char *kind,
                             bool is_marked);
void session_verdict_later(struct session_verdict_text *verdict, int64_t ms);
void session_verdict_lost(struct session_verdict_text *verdict, const char *reason,
                          const char *kind);
/* A word of a script that is passed to another script or to a client: lower case and dashes;
 * any other text becomes `instead`. */
void session_copy_word(const struct redis_value *value, char *out, size_t out_size,
                       const char *instead);

struct session_settled {
    enum session_bind_outcome outcome; /* SESSION_BOUND: the session is open; never FULL */
    enum call_outcome failure;
    char reason[LEASE_REASON_SIZE];
    int64_t next_ms; /* of an open session: until it wants to be visited */
};

typedef void session_settled_done(void *arg, const struct session_settled *settled);

/* Settles refs[i] with verdicts[i], batch by batch; both must stay until `done`, which comes
 * once, and never before this returns. `deadline_ms`: of the session, in epoch ms, as a visit
 * was told it; 0: this is no visit. `seen_ms`: epoch ms, by the clock of the session's home,
 * when the visit was told which leases are due; 0: now. Only a visit may have verdicts on
 * marked leases. False: there is no verdict, and `done` does not come. */
bool session_settle_all(struct store *store, const char *session_id,
                        const struct lease_ref *refs,
                        const struct session_verdict_text *verdicts, size_t count,
                        int64_t deadline_ms, int64_t seen_ms, session_settled_done *done,
                        void *arg) __attribute__((warn_unused_result));

/* --- log.c ---------------------------------------------------------------------- */

/* Log lines for operators: one for each event, over all front ends; none if the front end that
 * settles the event, or its connection to Redis, dies in that moment. */

/* The session's time was over. `name`: any text; `lease_count`: leases that were released. */
void session_log_expiry(const char *session_id, const char *name, int64_t lease_count);
/* The session had the lease until this `reason` ended it. `ref` is one of a lease. */
void session_log_loss(const struct store *store, const char *session_id,
                      const struct lease_ref *ref, const char *reason, const char *kind);

#endif
