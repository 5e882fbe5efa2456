/* What the files of the lock store share. */
#ifndef RLOCKD_STORAGE_STORE_STORE_PARTS_H
#define RLOCKD_STORAGE_STORE_STORE_PARTS_H

#include "server/base/pool.h"
#include "storage/store/key.h"
#include "storage/store/lease_record.h"
#include "storage/store/visits.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"
#include "storage/store/turns.h"

struct withdrawal;
struct unbinding;
struct held_back;

/* Sessions with leases that are still to be visited: visits.c. */
struct visit_line {
    struct lease_visits *waiting; /* utlist: of each session at most one */
    struct lease_visits
        *sessions; /* uthash: the same, and one whose last script is sent next */
    size_t under_way;
};

struct store {
    struct store_options options;
    uint64_t attempt_count;
    struct store_call *call; /* that is being filled */
    struct pool calls;       /* struct lease_call */
    struct turns looks;      /* look_turns.c */
    struct visit_line visit_lines[VISIT_LINES];
    /* Of sessions with many notes: pages.c. */
    struct turns large_keep_alives, large_looks;
    struct withdrawal *withdrawals; /* not confirmed by Redis yet */
    struct timer retry_withdrawals;
    struct unbinding *unbindings; /* the same */
    struct timer retry_unbindings;
    /* Told of visits to sessions that are to come, by partition. NULL: no watchdog runs. */
    void (*expect_visit)(void *arg, size_t partition, int64_t in_ms);
    void *expect_arg;
    struct marker *marker;
    struct held_back *held_back; /* attempts that are refused for a quarantine */
    struct timer refuse_held_back;
};

/* When a lease that the watchdog has just renewed is due again: Redisson's third. */
int64_t watchdog_period_ms(const struct config *config);

/* What is left of `ms` that Redis counted some time after `sent_ns`, counted from sent_ns on.
 */
int64_t store_ms_left(const struct store *store, int64_t ms, int64_t sent_ns);
/* Copies a text of a reply; "" when it does not fit. */
void lock_copy_text(const struct redis_value *reply, char *out, size_t out_size);

/* withdraw.c */
void withdrawals_release(struct store *store);
/* Sends unconfirmed withdrawals again. */
void withdrawals_retry(void *store);

/* quarantine.c */
/* Refuses the attempts that were held back. */
void held_back_refuse(void *store);

/* unbind.c */
void unbindings_release(struct store *store);
void unbindings_retry(void *store);
size_t unbindings_pending(const struct store *store);

#endif
