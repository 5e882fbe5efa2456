/* The leases of one caller that this front end granted and that may still be held, counted for
 * all workers together. A lease that ends elsewhere counts until the end that is known here.
 *
 * Times are those of clock_ns(). Every function may be called from any thread. */
#ifndef RLOCKD_SERVER_HTTP_AUTH_LEASES_H
#define RLOCKD_SERVER_HTTP_AUTH_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/token.h"
#include "server/http/auth_hash.h"

struct auth_leases;

/* A digest of what identifies a lease. A caller that could choose two leases with one key would
 * hold two leases and count one. */
struct auth_lease_key {
    unsigned char bytes[AUTH_HASH_LEN];
};

/* A lease that is held, by a reply of Redis. */
struct auth_lease_hold {
    struct auth_lease_key key;
    int64_t remaining_ms; /* negative: without end */
    bool watchdog;        /* renewed while its session is open */
};

/* NULL: out of memory. */
struct auth_leases *auth_leases_new(void);
void auth_leases_free(struct auth_leases *leases);

/* An attempt to acquire a lease. False: the caller has `max` others. Each true wants one
 * auth_leases_attempt_ended(). `session_id`: empty without a session. */
bool auth_leases_attempt(struct auth_leases *leases, int64_t max,
                         const struct auth_lease_key *key,
                         const char session_id[TOKEN_TEXT_SIZE], int64_t now_ns)
    __attribute__((warn_unused_result));
/* The attempt has ended. To be called after auth_leases_held() or auth_leases_over(), if the
 * attempt led to one of them. */
void auth_leases_attempt_ended(struct auth_leases *leases, const struct auth_lease_key *key);

/* The lease was granted, confirmed or renewed. A lease that is not counted stays uncounted. */
void auth_leases_held(struct auth_leases *leases, const struct auth_lease_hold *hold,
                      int64_t now_ns);
/* The lease is over, unless it was granted, confirmed or renewed after `since_ns`. */
void auth_leases_over(struct auth_leases *leases, const struct auth_lease_key *key,
                      int64_t since_ns);

/* The session is open, and its leases that the watchdog renews last for `lasts_ms` from now on
 * at most, unless there is a keep-alive. Beyond 2 * `max` sessions none is added. */
void auth_leases_session_open(struct auth_leases *leases, int64_t max,
                              const char session_id[TOKEN_TEXT_SIZE], int64_t lasts_ms,
                              int64_t now_ns);
/* These are all leases of the session, as of `since_ns` or later: its others are over. */
void auth_leases_session_holds(struct auth_leases *leases,
                               const char session_id[TOKEN_TEXT_SIZE],
                               const struct auth_lease_hold *holds, size_t count,
                               int64_t since_ns, int64_t now_ns);
/* The session has ended, and its leases with it. */
void auth_leases_session_ended(struct auth_leases *leases,
                               const char session_id[TOKEN_TEXT_SIZE]);

#endif
