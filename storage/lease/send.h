/* A script whose reply is about one lease: sent, and read into a struct lease_result. */
#ifndef RLOCKD_STORAGE_LEASE_SEND_H
#define RLOCKD_STORAGE_LEASE_SEND_H

#include "storage/lease/attempt.h"
#include "storage/lease/families.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"

/* Where the parts of a result stay until the callback returns. */
struct lease_reading {
    struct lease_result result;
    struct lease_record record;
    struct lock_holder holder;
    struct lease_hold holds[LOCKS_MAX];
    char forced[LEASE_CALLER_SIZE +
                LOCK_NOTE_SIZE]; /* the caller, and behind its NUL the reason */
};

/* Sends the call. A lost lease is reported to its session. */
void lease_call_send(struct store *store, struct store_call *call, const struct lease *lease,
                     lease_done *done, void *arg);
/* The same for a renewal, whose ARGV, those of renew.lua, are filled in here. A lease with a
 * session holds only if its session is open. */
void lease_renewal_send(struct store *store, struct store_call *call, const struct lease *lease,
                        lease_done *done, void *arg);

/* Fills in the ARGV of acquire.lua, and of the scripts whose ARGV begin with these. `record` is
 * written here, and has to stay until the call is sent. */
void lease_request_fill(struct store_call *call, const struct store *store,
                        const struct lease *lease, const struct attempt *attempt,
                        struct lease_record_text *record);
/* For how long a lock's fencing token is known after a grant whose record is kept for
 * `keep_ms`; 0: for ever. */
int64_t lease_fencing_ttl_ms(const struct store *store, int64_t keep_ms);

/* A further script of an attempt, which follows when the reply of Redis begins with this word.
 */
struct lease_step {
    const char *word;
    family_try *try;
};

/* The parameters of lease_attempt_send(), which copies the lease and the attempt; `steps` must
 * outlive the call. */
struct lease_try {
    const struct lease *lease;
    const struct attempt *attempt;
    const struct lease_step *steps; /* ends with a step without a word; NULL: no steps */
    attempt_done *done;
    void *arg;
};

/* The same for an attempt. A reply that names a step is not handed on: the attempt goes on with
 * that step. */
void lease_attempt_send(struct store *store, struct store_call *call,
                        const struct lease_try *asked);

/* read_reply.c. `lease`: that was asked for; `is_attempt`: and not renewed. */
void lease_reading_read(struct lease_reading *reading, const struct store *store,
                        const struct lease *lease, bool is_attempt,
                        const struct redis_result *result);
/* Ms for which no other permit is free after the grant of one; 0: there may be others. */
int64_t lease_none_left_ms(const struct lease_result *result);
/* The result points into the reading. */
void lease_reading_copy(struct lease_reading *to, const struct lease_reading *from);

#endif
