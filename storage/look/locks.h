/* The operations on a lock as such, whoever holds it: force-unlock, get, list. The files of the
 * room:
 *
 *   lock_get.c     a lock with its holders and waiters
 *   lock_list.c    pages of held locks, and of semaphores and latches
 *   lock_scan.c    rounds of SCAN over the keys that may belong into a page
 *   lock_ttl.c     for how long a lock is held
 *   lock_force.c   force-unlock
 *   grant_find.c   finds the reader that has a fencing token
 *   deadlock.c     how a deadlock looks in JSON, and the marks of its locks
 *   permits_get.c  the permits of a semaphore that are held
 *
 * handlers/ call the room, storage/census/ looks and scans, and storage/wait/ asks for a lock's
 * TTL. The room calls storage/store/, and has the results of counters of storage/lease/.
 *
 * Every asynchronous function takes a callback, which is called exactly once and never before
 * the function returns. Arguments that are needed longer are copied. */
#ifndef RLOCKD_STORAGE_LOOK_LOCKS_H
#define RLOCKD_STORAGE_LOOK_LOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/store/call_outcome.h"
#include "storage/store/holder.h"
#include "storage/store/lease.h"
#include "storage/store/lease_record.h"
#include "storage/store/store.h"

struct deadlock;
struct permits_view;

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
    const char *holder; /* of FORCE_UNLOCKED: the holder field that was freed, of many readers
                           one; gone when the callback returns */
};

/* Which grant is freed, who asks for it and why. */
struct force_order {
    const char *only;   /* a fencing token as text; "*": any grant; "": any holder, also one
                           without a grant */
    const char *caller; /* "": not known */
    const char *reason; /* "": none given */
};

typedef void lock_force_done(void *arg, const struct force_result *result);

/* The texts of the order are copied. */
void lock_force(struct store *store, const char *name, const struct force_order *order,
                lock_force_done *done, void *arg);

/* The reply of PTTL: ms for which the lock is held, -1: without a TTL; or one of these. */
enum { LOCK_TTL_FREE = -2, LOCK_TTL_UNKNOWN = -3 };

typedef void lock_ttl_done(void *arg, int64_t ttl_ms);

void lock_ttl(struct store *store, const char *name, lock_ttl_done *done, void *arg);

/* --- reading ------------------------------------------------------------------------------ */

enum {
    LOCK_WAITERS_SHOWN = 100,
    LOCK_HOLDERS_SHOWN = 100 /* more than one only with readers */
};

struct lock_waiter_view {
    char lease_id[LEASE_ID_SIZE]; /* empty: a Java client in a fair lock's queue */
    char field[LOCK_HOLDER_SIZE]; /* of the queue; empty: there is none */
    char note[LOCK_NOTE_SIZE];
    char caller[LEASE_CALLER_SIZE]; /* empty: not known */
    int64_t waited_ms;              /* negative: unknown */
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
    enum call_outcome outcome; /* CALL_WRONG_TYPE: no lock has the name */
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
    struct deadlock *deadlock;      /* that the lock is part of; NULL: none is known */
    /* Of a quorum: its servers, those that have replied, and those at which one holder holds
     * with one token. */
    struct {
        size_t nodes, replied, held; /* 0: this is no quorum */
        size_t first; /* the first server with a holder, of those that have replied, from 0 */
    } quorum;
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

enum { LIST_HOLDERS_SHOWN = 4 };

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

/* A semaphore or latch of a page, which look alike in Redis; the count of a latch is the
 * `free_count` of the view. The view names no permits, and is gone when this returns. */
typedef void semaphore_listed(void *arg, const char *name, const struct permits_view *view);

/* The same for semaphores, permit semaphores and latches. */
int semaphore_list(struct store *store, const char *prefix, size_t limit, const char *cursor,
                   semaphore_listed *listed, lock_list_done *done, void *arg)
    __attribute__((warn_unused_result));

#endif
