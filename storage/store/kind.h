/* One row for each kind of object: its names, its scripts, and how it is waited for. */
#ifndef RLOCKD_STORAGE_STORE_KIND_H
#define RLOCKD_STORAGE_STORE_KIND_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "storage/store/key.h"
#include "storage/redis/script.h"

enum object_kind {
    KIND_NONE,
    KIND_LOCK,
    KIND_FAIR,
    KIND_READ,
    KIND_WRITE,
    /* Sets: several locks of one kind, held by one lease. */
    KIND_SET_LOCK,
    KIND_SET_READ,
    KIND_SET_WRITE,
    KIND_PERMIT,
    KIND_SEMAPHORE,
    KIND_LATCH,
    KIND_COUNT
};

/* Kinds of one family share the KEYS, the ARGV and the replies of their scripts. */
enum kind_family {
    FAMILY_LOCK,
    FAMILY_SET,
    FAMILY_PERMIT,
    FAMILY_SEMAPHORE,
    FAMILY_LATCH,
    FAMILY_COUNT
};

/* The sort of a wait: which channel tells of it, and which of its messages wake. */
enum wait_kind { WAIT_LOCK, WAIT_FAIR, WAIT_READ_WRITE, WAIT_SEMAPHORE, WAIT_LATCH };

struct kind_row {
    const char *name;   /* in requests, answers and records; a set has that of its locks */
    const char *member; /* of JSON objects: names the object, or lists the locks of a set */
    enum kind_family family;
    enum object_kind set;    /* the set of locks of this kind; KIND_NONE: there is none */
    enum object_kind single; /* of a set: the kind of its locks; else the kind itself */
    enum script try, withdraw;
    enum script renew, release; /* of leases only */
    enum script hand_over;      /* releases and grants; of leases on one object only */
    enum key_kind record;       /* the key that records the effect of a request */
    enum wait_kind wait;
    int64_t wants;             /* see struct waiter; 0: as many as the request's permits */
    bool leaves_some;          /* after a grant the next waiter may be granted, too */
    bool reads;                /* several leases of this kind hold the lock together */
    bool keeps_place;          /* a waiter's place in Redis can outlive its request */
    bool shares_holder;        /* holders are several, each with a token and a TTL of its own */
    const char *not_in_quorum; /* why a quorum does not offer it; NULL: it does */
};

extern const struct kind_row kind_rows[KIND_COUNT];

/* `kind` must not be KIND_NONE. */
static inline const struct kind_row *kind_row(enum object_kind kind)
{
    assert(kind > KIND_NONE && kind < KIND_COUNT);
    return &kind_rows[kind];
}

/* The kind of a lease on one object by its name; KIND_NONE: no kind has the name. */
enum object_kind kind_find(const char *name);
/* The row of the kind with that name; the row of plain locks if there is none, because the name
 * may come from Redis. */
const struct kind_row *kind_row_of(const char *name);

#endif
