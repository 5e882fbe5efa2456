/* One request about one lease: its id and the fields of the client. */
#ifndef RLOCKD_STORAGE_STORE_LEASE_H
#define RLOCKD_STORAGE_STORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/token.h"
#include "storage/store/kind.h"
#include "storage/store/lock_names.h"

enum {
    LOCK_NAME_SIZE = 513,
    LEASE_ID_SIZE = TOKEN_TEXT_SIZE,
    LOCK_HOLDER_SIZE = 200, /* <uuid>:<thread or owner>[:<transaction>] */
    LOCK_NOTE_SIZE = 257,
    LOCK_OWNER_SIZE = 65,
    LEASE_CALLER_SIZE = 65, /* of the name of an API token */
    SESSION_ID_SIZE = TOKEN_TEXT_SIZE,
    SESSION_NAME_SIZE = 129,
    ATTEMPT_ID_SIZE = 40,
    KIND_NAME_SIZE = 8,    /* of the kinds of leases on one object */
    LEASE_REASON_SIZE = 16 /* why a lease or a session has ended */
};

/* Locks of the leases of a session, leases that wait included. A lease of several locks counts
 * each of them, because a visit to the lease costs as much. */
enum { SESSION_LOCKS_MAX = 1000 };

enum token_origin {
    TOKEN_FRESH,    /* the server made the token in this very request */
    TOKEN_RECORDED, /* the client made the token, or there is a note or session to keep: a
                       record exists */
    TOKEN_RETURNED  /* a token that the server made came back */
};

/* One request about one lease. Filled by the caller, who owns it. A request that changes a
 * semaphore or a latch is one, too: `id` is its idempotency key. */
struct lease {
    enum object_kind kind;
    struct lock_names *names; /* of the object; of a set all its locks */
    char id[LEASE_ID_SIZE];
    char session_id[SESSION_ID_SIZE]; /* empty: none */
    char owner[LOCK_OWNER_SIZE];      /* whose leases share a session's lock; or empty */
    char note[LOCK_NOTE_SIZE];
    char caller[LEASE_CALLER_SIZE]; /* who asks; empty where there are no API tokens */
    char attempt[ATTEMPT_ID_SIZE]; /* tells this request's grant from that of another request */
    enum token_origin token;
    bool unrepeatable; /* no client has the token, so there is no second request */
    bool reusable;     /* of a permit: the token may acquire again as soon as it has none */
    bool watchdog;     /* renewed while its session lives */
    int64_t ttl_ms;
    int64_t permits; /* of a semaphore */
};

/* Whether the lease is of several locks. */
static inline bool lease_is_set(const struct lease *lease)
{
    return kind_row(lease->kind)->family == FAMILY_SET;
}

/* The name of the object; of a set that of its first lock. */
static inline const char *lease_name(const struct lease *lease)
{
    return lease->names->name[0];
}

#endif
