/* Locks on Redis, one request and one script at a time: try, renew, release, withdraw, look,
 * force, list. Waiting is built on top of it: acquire.h.
 *
 * Every asynchronous call here takes a callback that comes exactly once, never before the call
 * returns. What has to outlive the call is copied. */
#ifndef RLOCKD_STORAGE_LOCK_STORE_H
#define RLOCKD_STORAGE_LOCK_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/config.h"
#include "server/loop.h"
#include "server/metrics.h"
#include "storage/lock_names.h"
#include "storage/redis.h"

enum {
    LOCK_NAME_SIZE = 513,
    LEASE_ID_SIZE = 37,
    LOCK_HOLDER_SIZE = 200, /* <uuid>:<thread or owner>[:<transaction>] */
    LOCK_NOTE_SIZE = 257,
    LOCK_OWNER_SIZE = 65,
    SESSION_ID_SIZE = 37,
    SESSION_NAME_SIZE = 129,
    LOCK_MARK_SIZE = 40,
    LOCK_WAITERS_SHOWN = 100,
    LOCK_HOLDERS_SHOWN = 100 /* more than one only of readers */
};

/* As clients name them: lock_kind_name(). */
enum lock_kind { LOCK_KIND_LOCK, LOCK_KIND_FAIR, LOCK_KIND_READ, LOCK_KIND_WRITE };

enum { LOCK_KIND_SIZE = 8, LOCK_KIND_COUNT = LOCK_KIND_WRITE + 1 };

enum lease_mode {
    LEASE_NEW,      /* the server made the token in this very request */
    LEASE_RECORDED, /* the client made the token, or something is to be kept: a record exists */
    LEASE_MADE      /* a token that the server made came back */
};

struct acquire_object;

/* One request about one lease. Filled by the caller, who owns it. */
struct lease {
    const struct acquire_object *object; /* NULL: a lock of `kind`; else see acquire.h */
    enum lock_kind kind;
    char name[LOCK_NAME_SIZE]; /* of the lock, as the client says it; of several the first */
    struct lock_names *locks;  /* of several locks at once; NULL: of one */
    char id[LEASE_ID_SIZE];
    char session_id[SESSION_ID_SIZE]; /* empty: none */
    char owner[LOCK_OWNER_SIZE]; /* with a session: whose leases share the lock; or empty */
    char note[LOCK_NOTE_SIZE];
    char mark[LOCK_MARK_SIZE]; /* of the request: lock_store_mark() */
    enum lease_mode mode;
    bool once;     /* nobody has its token, so nobody can ask a second time */
    bool watchdog; /* renewed while its session lives */
    int64_t ttl_ms;
    int64_t permits; /* of a semaphore */
};

/* Who holds a lock. */
struct lock_holder {
    char field[LOCK_HOLDER_SIZE]; /* of the hash in Redis; empty: nobody, or not known */
    int64_t hold_count;
    char note[LOCK_NOTE_SIZE];
    char session_id[SESSION_ID_SIZE]; /* with name and owner: empty when there is none */
    char session_name[SESSION_NAME_SIZE];
    char owner[LOCK_OWNER_SIZE];
    bool watchdog;
    char kind[LOCK_KIND_SIZE]; /* as far as the data tells */
    int64_t fencing_token;     /* 0: not known */
    int64_t remaining_ms;      /* negative: unknown */
};

enum lock_outcome {
    LOCK_GRANTED,
    LOCK_HELD, /* by this lease already, or still */
    LOCK_BUSY,
    LOCK_RELEASED,
    LOCK_UNLOCKED,
    LOCK_FREE,
    LOCK_STALE, /* another grant than the one that was named */
    LOCK_ENDED, /* the lease is spent: `reason` */
    LOCK_SESSION_ENDED,
    LOCK_REUSED, /* the token belongs to another lock, kind or owner */
    LOCK_WRONG_KIND,
    LOCK_UPGRADE, /* its owner reads, and would wait for itself */
    LOCK_NOT_FOUND,
    LOCK_TOO_LARGE, /* the number would be */
    LOCK_LOOKED,
    LOCK_TOO_MANY_WAITERS,
    LOCK_DRAINING,
    LOCK_OUT_OF_MEMORY, /* Redis', not executed */
    LOCK_NOT_EXECUTED,
    LOCK_UNKNOWN /* nobody can know: ask again with the same token */
};

struct lock_result {
    enum lock_outcome outcome;
    int64_t fencing_token; /* 0: none was ever issued */
    int64_t remaining_ms;  /* counted from before Redis was asked; negative: unknown */
    int64_t ttl_ms;        /* 0: not known */
    int64_t hold_count;
    int64_t value;   /* of a semaphore or latch: what it is now */
    int64_t permits; /* that it was about */
    size_t waiter_count;
    size_t in_the_way; /* number, from 1 on, of the one of several locks that is; 0: none */
    char reason[16];
    /* What it was read from, gone when the callback returns: multi_store.h has more of it. */
    const struct redisReply *reply;
    /* Of a lease that was confirmed or renewed: what its record says. */
    char kind[LOCK_KIND_SIZE];
    char note[LOCK_NOTE_SIZE];
    char session_id[SESSION_ID_SIZE];
    char owner[LOCK_OWNER_SIZE];
    bool watchdog;
    struct lock_holder holder; /* for LOCK_BUSY: only its field, until lock_describe_holder() */
};

typedef void lock_done(void *arg, const struct lock_result *result);

struct lock_store_options {
    const struct config *config;
    struct loop *loop;
    struct metrics *metrics;
    struct redis *redis;
    const char *worker_id; /* unique among all front ends */
};

struct lock_store;

/* NULL: out of memory. */
struct lock_store *lock_store_new(const struct lock_store_options *options);
void lock_store_free(struct lock_store *store);

/* A mark that no other request has, of any front end. */
void lock_store_mark(struct lock_store *store, char mark[LOCK_MARK_SIZE]);
/* The name of the lock's hash in Redis: the key prefix and the name. */
size_t lock_store_key_name(const struct lock_store *store, const char *name, char *out,
                           size_t out_size);

const char *lock_kind_name(enum lock_kind kind);
/* False: there is no such kind. */
bool lock_kind_find(const char *name, enum lock_kind *kind);

/* One attempt to acquire. `register_ms` > 0: if the lock is busy, stand among its waiters for
 * so long. `registered`: the request stands there, and leaves unless it goes on to wait. */
void lock_try(struct lock_store *store, const struct lease *lease, int64_t register_ms,
              bool registered, lock_done *done, void *arg);
void lock_renew(struct lock_store *store, const struct lease *lease, lock_done *done,
                void *arg);
void lock_release(struct lock_store *store, const struct lease *lease, lock_done *done,
                  void *arg);

/* Takes back whatever the request with this lease's mark did, now or as soon as Redis answers
 * again; gives up when the lease must have expired by itself. Nobody is told. */
void lock_withdraw(struct lock_store *store, const struct lease *lease);
/* The same, but its place in the queue of a fair lock stays for a while, for the next request
 * with the same token. */
void lock_keep_place(struct lock_store *store, const struct lease *lease);
/* To be called when Redis is usable again. */
void lock_store_redis_is_up(struct lock_store *store);

/* `only`: a fencing token as text, "*" for any grant, "" for whatever there is. */
void lock_force(struct lock_store *store, const char *name, const char *only, lock_done *done,
                void *arg);

/* Finds out who holds the lock of a busy result, at the cost of another request to Redis:
 * `done` gets a copy of `result`. */
void lock_describe_holder(struct lock_store *store, const char *name,
                          const struct lock_result *result, lock_done *done, void *arg);

/* --- looking -------------------------------------------------------------------------------
 */

struct lock_waiter_view {
    char lease_id[LEASE_ID_SIZE]; /* empty: a Java client in a fair lock's queue */
    char field[LOCK_HOLDER_SIZE]; /* of the queue; empty: there is none */
    char note[LOCK_NOTE_SIZE];
    int64_t waited_ms; /* negative: unknown */
    int64_t remaining_ms;
};

enum lease_state { LEASE_UNASKED, LEASE_UNKNOWN, LEASE_WAITING, LEASE_HELD, LEASE_ENDED };

struct lock_view {
    enum lock_outcome outcome; /* LOCK_LOOKED, or why not */
    bool locked;
    char kind[LOCK_KIND_SIZE]; /* as far as the data tells, or empty */
    size_t holder_count;       /* all of them */
    size_t holders_shown;
    struct lock_holder *holders;
    int64_t remaining_ms; /* negative: unknown */
    int64_t fencing_token;
    bool is_current; /* the fencing token that was asked for is that of a grant that holds */
    size_t waiter_count; /* all of them */
    size_t waiters_shown;
    struct lock_waiter_view *waiters;
    enum lease_state lease_state; /* of the lease that asked */
    char reason[16];              /* of LEASE_ENDED */
};

typedef void lock_look_done(void *arg, const struct lock_view *view);

struct lock_look_wish {
    const struct lease *lease; /* whose state is asked for; may be NULL */
    int64_t fencing_token;     /* that is asked for; 0: none */
    size_t waiters_max;        /* how many to name, at most LOCK_WAITERS_SHOWN */
    size_t holders_max;        /* how many to name, 1 to LOCK_HOLDERS_SHOWN */
    const char *only;          /* the only holder to name, its field; may be NULL */
};

/* The view and what it points to are gone when `done` returns. */
void lock_look(struct lock_store *store, const char *name, const struct lock_look_wish *wish,
               lock_look_done *done, void *arg);

/* --- listing ------------------------------------------------------------------------------ */

enum { LIST_HOLDERS_SHOWN = 4 };

/* A lock of a page: `name` as clients say it. The view names no waiters. */
struct lock_list_entry {
    char name[LOCK_NAME_SIZE];
    struct lock_view view;
    struct lock_holder holders[LIST_HOLDERS_SHOWN];
};

struct lock_list {
    enum lock_outcome outcome; /* LOCK_LOOKED, or why not */
    size_t count;
    const struct lock_list_entry *entries;
    char next_cursor[64]; /* empty: this was the last page */
};

typedef void lock_list_done(void *arg, const struct lock_list *list);

/* Held locks whose name begins with `prefix`, at most `limit`, in no order, in bounded work: a
 * page may hold few or none although there is another. `cursor` comes from the page before; "":
 * from the start. Non-zero: that is no cursor, and `done` does not come. */
int lock_list(struct lock_store *store, const char *prefix, size_t limit, const char *cursor,
              lock_list_done *done, void *arg) __attribute__((warn_unused_result));

/* How many withdrawals Redis has not confirmed yet. */
size_t lock_store_pending(const struct lock_store *store);

/* True for the holder field of a lease of ours without an owner: `lease_id` is then set. */
bool lock_holder_is_lease(const char *holder, char lease_id[LEASE_ID_SIZE]);
/* Length of a holder field without the mark of a writer. */
size_t lock_holder_len(const char *holder);
/* True when a hash with this only field is a lock, of ours or of Redisson. */
bool lock_is_holder(const char *field);

/* What an error of Redis means for a lock. */
enum lock_outcome lock_outcome_of(const struct redis_result *result);

#endif
