/* What the tests of read/write locks share: requests, what stands in Redis, and a Java client's
 * side of them. */
#ifndef E2E_READ_WRITE_H
#define E2E_READ_WRITE_H

#include "harness_session.h"

#define JAVA_OTHER "5f6bd9d2-3c58-4a39-8f07-1d8a5a1b5a10:23"

enum { SOON_MS = 1500 };

/* Granted now to a fresh token without a session, which is given back. `query` begins with the
 * kind: "read&ttl_ms=500". */
const char *rw_hold(struct front *fe, const char *lock, const char *query);
/* The same for an owner of a session. */
const char *rw_own(struct front *fe, const struct session *s, const char *lock,
                   const char *query);
struct reply *rw_put(struct front *fe, const char *lock, const char *token, const char *query);
/* A request that waits for certain. */
struct call *rw_park(struct front *fe, const char *lock, const char *token, const char *query);
struct call *rw_park_owner(struct front *fe, const struct session *s, const char *lock,
                           const char *token, const char *query);

/* The field of the hash for a lease without an owner. */
const char *rw_field(struct front *fe, const char *lock, const char *token);
/* -1: there is no such field. */
long long rw_count(struct redis *redis, const char *lock, const char *field);
const char *rw_read_key(struct world *w, const char *lock, const char *field, int number);
/* TTL of one read; negative: there is none. */
long long rw_read_left(struct redis *redis, const char *lock, const char *field, int number);
/* "read", "write"; "": the lock is free. */
const char *rw_mode(struct redis *redis, const char *lock);
/* What GET says of a holder; NULL: nothing. */
json_t *rw_holder(const struct reply *reply, const char *member, const char *value);

/* What Redisson's scripts do. The holder of a writer goes without its `:write`. Acquire: nil,
 * which is got, is -3, else the TTL. Unlock: nil, which is an exception, is -3. */
enum { JAVA_NIL = -3 };
long long redisson_read(struct redis *redis, const char *lock, const char *holder,
                        int lease_ms);
long long redisson_write(struct redis *redis, const char *lock, const char *holder,
                         int lease_ms);
/* The watchdog of Redisson before 4.4, which sets the times of all reads of the lock. */
void redisson_renew_reads(struct redis *redis, const char *lock, const char *holder,
                          int timeout_ms);
long long redisson_end_read(struct redis *redis, const char *lock, const char *holder);
long long redisson_end_write(struct redis *redis, const char *lock, const char *holder,
                             int lease_ms);
/* forceUnlock() of the read and of the write lock. */
long long redisson_force(struct redis *redis, const char *lock, const char *mode);

#endif
