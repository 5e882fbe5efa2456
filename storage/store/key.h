/* The keys and channels in Redis, by the rules of Redisson and of rlockd, from one table. */
#ifndef RLOCKD_STORAGE_STORE_KEY_H
#define RLOCKD_STORAGE_STORE_KEY_H

#include <stdbool.h>
#include <stddef.h>

enum {
    KEY_NAME_MAX = 768, /* a prefix of 256 bytes and a name of 512 */
    KEY_SIZE = KEY_NAME_MAX + 80
};

enum key_kind {
    /* Of an object, by its name with the operator's prefix. */
    KEY_OBJECT,   /* the lock, semaphore or latch itself: the bare name */
    KEY_COUNTER,  /* the last fencing token of a lock */
    KEY_QUEUE,    /* of a fair lock */
    KEY_TIMES,    /* of a fair lock: when waiters' time is over */
    KEY_TIMEOUTS, /* of a semaphore: when permits expire */
    KEY_LEASE,    /* and a lease id: the record of a lease */
    KEY_MEMBER,   /* and a lease id: the record of a lease of several locks */
    KEY_WAITERS,
    KEY_PLACES, /* of a fair lock: until when places are kept without a request */
    KEY_FORCED,
    KEY_OWNER,
    KEY_DEADLOCK,    /* marks a lock of a deadlock */
    KEY_LONG_WAITS,  /* for a lock */
    KEY_IDEMPOTENCY, /* and an idempotency key: what a request did */
    KEY_DELETED,     /* of a semaphore: marks that it was deleted */
    /* By a lease id. */
    KEY_SET, /* the names of the locks of a set */
    /* By a session id. */
    KEY_SESSION,
    KEY_SESSION_LEASES,
    KEY_SESSION_DUE,
    KEY_SESSION_LOST,
    KEY_SESSION_WAITS, /* its long waits */
    /* By a hexadecimal digit. */
    KEY_SESSIONS, /* a partition of the index of sessions */
    KEY_QUEUES,   /* a partition of the index of queues of fair locks */
    KEY_WAITS,    /* a partition of the index of locks with long waits */
    /* By the key prefix. */
    KEY_CENSUS,
    /* Channels of an object. */
    CHANNEL_LOCK,
    CHANNEL_FAIR, /* and a lease id: of a waiter for a fair lock */
    CHANNEL_READ_WRITE,
    CHANNEL_SEMAPHORE,
    CHANNEL_LATCH,
    /* By a worker's id. */
    CHANNEL_WORKER,
    KEY_KINDS
};

/* The number of the layout of all keys and values, in each marker. A change of the layout that
 * another version would misread needs another number: front ends with different numbers never
 * share a Redis. */
enum { KEY_LAYOUT = 1 };

/* A key and channels that have one name each. */
#define KEY_MARKER "rlockd:marker"
#define CHANNEL_LEASES "rlockd:leases"
#define CHANNEL_SESSIONS "rlockd:sessions"

/* A key with its NUL. */
struct key {
    size_t len;
    char text[KEY_SIZE];
};

/* Writes the key of this kind of `of`, a name or an id, and returns its length. `id`: the
 * second id that some kinds have, else not read. `out` has KEY_SIZE bytes. */
size_t key_write(char *out, enum key_kind kind, const char *of, size_t of_len, const char *id);
void key_make(struct key *key, enum key_kind kind, const char *of, size_t of_len,
              const char *id);

/* True for a name that, behind the key prefix, would be a companion key of another object, or a
 * key of our own. */
bool key_is_reserved(const char *key_prefix, const char *name);
/* Whether all keys of an object of this name, with its prefix, are in one slot of a cluster.
 * Redisson's rule fails for names with unmatched braces. */
bool key_shares_slot(const char *name, size_t len);

/* Every key of our own, and every companion that Redisson prefixes, begins with this. */
#define KEY_PREFIX_OWN "rlockd:"
#define KEY_PREFIX_REDISSON "redisson_"

#endif
