/* The lock store: shared by all calls of Redis; and the operations on a lock as such: get,
 * list, force-unlock. Leases: leases.h; waiting: storage/wait/acquire.h.
 *
 * Every asynchronous function takes a callback, which is called exactly once and never before
 * the function returns. Arguments that are needed longer are copied. */
#ifndef RLOCKD_STORAGE_STORE_STORE_H
#define RLOCKD_STORAGE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/config.h"
#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "storage/lease/lease_result.h"
#include "storage/topology/topology.h"

enum {
    LOCK_WAITERS_SHOWN = 100,
    LOCK_HOLDERS_SHOWN = 100 /* more than one only with readers */
};

struct store_options {
    const struct config *config;
    struct loop *loop;
    struct metrics *metrics;
    struct topology *topology;
    const char *worker_id; /* unique among all front ends */
};

struct store;

/* NULL: out of memory. */
struct store *store_new(const struct store_options *options);
void store_free(struct store *store);

/* An attempt that no other request has, of any front end. */
void store_attempt_id(struct store *store, char attempt[ATTEMPT_ID_SIZE]);
/* The name of the lock's hash in Redis: the key prefix and the name. */
size_t store_key_name(const struct store *store, const char *name, char *out, size_t out_size);

enum names_fitness {
    NAMES_FIT,
    NAMES_HAVE_UNMATCHED_BRACES, /* in a cluster: the keys of one object are in several slots */
    NAMES_ARE_IN_SEVERAL_SLOTS   /* in a cluster: of a set */
};

/* Whether the keys of all these objects are in one slot, so that one script can serve them. */
enum names_fitness store_check_names(const struct store *store, const char *const *names,
                                     size_t count);

/* For how long no lease of this object is granted, since its Redis may have lost some; 0:
 * leases are granted. `name` as clients say it; NULL: the longest of all objects. */
int64_t store_quarantine_ms(const struct store *store, const char *name);

/* To be called when Redis is usable again. */
void store_redis_is_up(struct store *store);

enum force_outcome {
    FORCE_UNLOCKED,
    FORCE_FREE,
    FORCE_STALE, /* the named grant is not the current one */
    FORCE_WRONG_KIND,
    FORCE_MANY_READERS, /* the named grant may be of a reader beyond GRANT_READERS_MAX */
    FORCE_FAILED        /* `failure` */
};

struct force_result {
    enum force_outcome outcome;
    enum call_outcome failure;
};

typedef void lock_force_done(void *arg, const struct force_result *result);

/* `only`: a fencing token as text; "*" for any grant; "" for any holder, also one without a
 * grant. */
void lock_force(struct store *store, const char *name, const char *only, lock_force_done *done,
                void *arg);

/* The reply of PTTL: ms for which the lock is held, -1: without a TTL; or one of these. */
enum { LOCK_TTL_FREE = -2, LOCK_TTL_UNKNOWN = -3 };

typedef void lock_ttl_done(void *arg, int64_t ttl_ms);

void lock_ttl(struct store *store, const char *name, lock_ttl_done *done, void *arg);

/* --- reading -------------------------------------------------------------------------------
 */

struct lock_waiter_view {
    char lease_id[LEASE_ID_SIZE]; /* empty: a Java client in a fair lock's queue */
    char field[LOCK_HOLDER_SIZE]; /* of the queue; empty: there is none */
    char note[LOCK_NOTE_SIZE];
    int64_t waited_ms; /* negative: unknown */
    int64_t remaining_ms;
};

enum lease_state {
    LEASE_STATE_UNASKED,
    LEASE_STATE_UNKNOWN,
    LEASE_STATE_WAITING,
    LEASE_STATE_HELD,
    LEASE_STATE_ENDED
};

struct lock_view {
    enum call_outcome
        outcome; /* CALL_DONE; CALL_WRONG_TYPE: the name is no lock's; or why not */
    bool locked;
    char kind[KIND_NAME_SIZE]; /* as far as the data tells, or empty */
    size_t holder_count;       /* all of them */
    size_t holders_shown;
    struct lock_holder *holders;
    int64_t remaining_ms; /* negative: unknown */
    int64_t fencing_token;
    bool is_current; /* the fencing token that was asked for is that of a grant that holds */
    bool has_more_readers; /* it may be the token of a reader beyond GRANT_READERS_MAX */
    size_t waiter_count;   /* all of them */
    size_t waiters_shown;
    struct lock_waiter_view *waiters;
    enum lease_state lease_state;   /* of the lease that asked */
    char reason[LEASE_REASON_SIZE]; /* of LEASE_STATE_ENDED */
};

typedef void lock_get_done(void *arg, const struct lock_view *view);

struct lock_query {
    const struct lease *lease; /* whose state is asked for; may be NULL */
    int64_t fencing_token;     /* that is asked for; 0: none */
    size_t waiters_max;        /* how many to name, at most LOCK_WAITERS_SHOWN */
    size_t holders_max;        /* how many to name, 1 to LOCK_HOLDERS_SHOWN */
};

/* The view and the memory that it points to are valid until `done` returns. */
void lock_get(struct store *store, const char *name, const struct lock_query *query,
              lock_get_done *done, void *arg);

/* --- listing ------------------------------------------------------------------------------ */

enum {
    LIST_HOLDERS_SHOWN = 4,
    LIST_CURSOR_SIZE = 64 /* of the listing of sessions, too */
};

/* A lock of a page: `name` as clients say it. The view names no waiters, and is gone when this
 * returns. */
typedef void lock_listed(void *arg, const char *name, const struct lock_view *view);

struct lock_list {
    enum call_outcome outcome;          /* CALL_DONE, or why not */
    char next_cursor[LIST_CURSOR_SIZE]; /* empty: this was the last page */
};

typedef void lock_list_done(void *arg, const struct lock_list *list);

/* Held locks whose name begins with `prefix`, at most `limit`, in no order, in bounded work: a
 * page may hold few or none although there is another. Each is told as it is found, and `done`
 * comes last. `cursor` comes from the page before; "": from the start. Non-zero: that is no
 * cursor, and nothing is called. */
int lock_list(struct store *store, const char *prefix, size_t limit, const char *cursor,
              lock_listed *listed, lock_list_done *done, void *arg)
    __attribute__((warn_unused_result));

/* How many withdrawals and unbindings Redis has not confirmed yet. */
size_t store_pending(const struct store *store);

#endif
