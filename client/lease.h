/* A lease of rlockd as rlock holds it: acquired, proven again and again, released. */
#ifndef RLOCK_CLIENT_LEASE_H
#define RLOCK_CLIENT_LEASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/http/http.h"
#include "client/settings.h"
#include "client/token.h"

enum { SESSION_ID_SIZE = 64 };

/* How a lease is kept alive. */
enum lease_keeper {
    /* The lease belongs to a session, and the server's watchdog renews it. A keep-alive that
     * hangs is heartbeat and alarm. */
    KEEPER_SESSION,
    /* The lease has a ttl_ms, and rlock renews it: for --at-least, since the end of a session
     * releases its leases at once, and where the watchdog's time leaves no room for --grace. A
     * loss is noticed at the next renewal, within 2 s. */
    KEEPER_RENEWAL,
};

enum lease_outcome {
    LEASE_HELD,
    LEASE_BUSY,        /* the wait was in vain */
    LEASE_LOST,        /* the lease or its session has ended */
    LEASE_REFUSED,     /* 401, 403 */
    LEASE_INVALID,     /* the request can never be granted: 400, 404, 409, 422 */
    LEASE_UNREACHABLE, /* no server has answered in time */
    LEASE_INTERRUPTED,
};

struct lease {
    struct http *http;
    const struct settings *settings;
    enum lease_keeper keeper;
    char *path; /* of the lock, the set or the permit */
    char session_token[TOKEN_SIZE], token[TOKEN_SIZE];
    char session_id[SESSION_ID_SIZE], lease_id[TOKEN_SIZE];
    json_t *grant;       /* the answer that granted the lease */
    int64_t wait_max_ms; /* of one request */
    bool is_asked_for;   /* a request that acquires was sent: its outcome has to be known */
    int64_t kept_at;     /* the last request that kept the session alive was sent then */
    int64_t granted_at;
    int64_t deadline; /* boottime_ms(): until then the lease is proven */
    char detail[512]; /* why not, for people */
    bool was_forced;  /* the detail tells of a force-unlock, or of a session ended by force */
};

/* `settings` and `http` must outlive the lease. False: no memory. */
bool lease_init(struct lease *lease, struct http *http, const struct settings *settings,
                enum lease_keeper keeper) __attribute__((warn_unused_result));
void lease_release_memory(struct lease *lease);

/* Waits until then (boottime_ms()) with one token. LEASE_LOST: the session has ended meanwhile,
 * since Redis lost its data or this machine was suspended; start anew. Called with every answer
 * "locked", whose body names the holder, is `busy`. After anything but LEASE_HELD
 * lease_give_up() is due. */
enum lease_outcome lease_acquire(struct lease *lease, int64_t until,
                                 void (*busy)(struct lease *lease, json_t *problem));

/* One proof: a keep-alive that hangs for `wait_ms`, or a renewal. LEASE_HELD: `deadline` has
 * grown. LEASE_UNREACHABLE: unknown, to be tried again; it has turned to the next server. */
enum lease_outcome lease_prove(struct lease *lease, int64_t wait_ms, int64_t timeout_ms);

/* How long the watchdog's lease lasts, as the grant says; 0: rlock renews it itself. */
int64_t lease_watchdog_ms(const struct lease *lease);

/* The lease lasts `ttl_ms` from now; `grant` is the answer. Asks until then, or for
 * --connect-timeout with BOOTTIME_NEVER. LEASE_LOST: it was not held any more. */
enum lease_outcome lease_extend(struct lease *lease, int64_t ttl_ms, int64_t until);

/* Releases the lease, or with --at-least lets it end later. LEASE_LOST: it was not held any
 * more. LEASE_UNREACHABLE: no answer until then, or one that came so late that the lease had
 * ended by itself. */
enum lease_outcome lease_release(struct lease *lease, int64_t until);

/* Withdraws whatever a request may have got, and ends the session, in at most a few seconds.
 * False: no server has confirmed it; what was granted ends by itself. */
bool lease_give_up(struct lease *lease);

#endif
