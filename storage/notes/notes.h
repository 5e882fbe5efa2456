/* What the files about sessions share. */
#ifndef RLOCKD_STORAGE_NOTES_NOTES_H
#define RLOCKD_STORAGE_NOTES_NOTES_H

#include "storage/store/lease_ref.h"
#include "storage/store/store_parts.h"
#include "storage/session/session.h"

enum {
    SESSION_PARTITIONS = 16,
    /* Leases that one call names: some tenths of a millisecond of Redis' thread. */
    SESSION_BATCH = 60
};

/* Fills in the key of a partition, as number `at` of the KEYS of a script of the index. */
void session_index_key(struct store_call *call, size_t at, size_t partition);
/* The name of a partition: the digit that its sessions' ids begin with. */
struct key_base session_index_base(size_t partition);

/* The outcome of a reply whose first value is a word, or of a failed call; with the reason of
 * SESSION_ENDED. */
void session_read_outcome(struct session_view *view, const struct redis_result *result);

/* Instead of a claim: only where the index has lost the session. */
#define SESSION_NOT_INDEXED "-"

/* index_set.lua. `in_ms` negative: the session leaves the index. `claim`: NULL, or the claim
 * under which the session is visited, or SESSION_NOT_INDEXED. `done` may be NULL. */
void session_index_set(struct store *store, const char *session_id, int64_t in_ms,
                       const char *claim, redis_done *done, void *arg);

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
    enum session_outcome outcome; /* SESSION_OPEN, SESSION_ENDED or SESSION_FAILED */
    enum call_outcome failure;
    char reason[LEASE_REASON_SIZE];
    int64_t next_ms; /* of an open session: until it wants to be visited */
};

typedef void session_settled_done(void *arg, const struct session_settled *settled);

/* Settles refs[i] with verdicts[i], batch by batch; both must stay until `done`, which comes
 * once, and never before this returns. `deadline_ms`: of the session, in epoch ms, as a visit
 * was told it; 0: this is no visit. Only a visit may have verdicts on marked leases. False:
 * there is no verdict, and `done` does not come. */
bool session_settle_all(struct store *store, const char *session_id,
                        const struct lease_ref *refs,
                        const struct session_verdict_text *verdicts, size_t count,
                        int64_t deadline_ms, session_settled_done *done, void *arg)
    __attribute__((warn_unused_result));

/* --- log.c ---------------------------------------------------------------------- */

/* Log lines for operators: one for each event, over all front ends; none if the front end that
 * settles the event, or its connection to Redis, dies in that moment. */

/* The session's time was over. `name`: any text; `lease_count`: leases that were released. */
void session_log_expiry(const char *session_id, const char *name, int64_t lease_count);
/* The session had the lease until this `reason` ended it. `ref` is one of a lease. */
void session_log_loss(const struct store *store, const char *session_id,
                      const struct lease_ref *ref, const char *reason, const char *kind);

/* --- end.c ------------------------------------------------------------------------ */

/* session_end() by the watchdog, if the session's time is over or its end is to be worked off.
 * `logs_losses`: the client did not want the end. */
void session_end_expired(struct store *store, const char *session_id, bool logs_losses,
                         session_done *done, void *arg);

#endif
