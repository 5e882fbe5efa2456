/* What the tests of fair locks share: the queue in Redis, and Java clients of RFairLock as
 * their scripts act (Redisson 3.32 to 4.7). */
#ifndef E2E_FAIR_H
#define E2E_FAIR_H

#include "harness_session.h"

#define JAVA_A "11111111-1111-4111-8111-111111111111:31"
#define JAVA_B "22222222-2222-4222-8222-222222222222:32"
#define JAVA_C "33333333-3333-4333-8333-333333333333:33"

/* Redisson's fairLockWaitTimeout; how long a place of ours lasts without a request. */
enum { FAIR_WAIT_MS = 300000, PLACE_MS = 15000, JAVA_GOT_IT = -1000 };

/* ---- requests ---- */

struct reply *fair_put(struct front *fe, const char *lock, const char *token,
                       const char *query);
/* A waiter that stands in the queue for certain, behind all that were there. */
struct call *fair_park(struct front *fe, const char *lock, const char *token,
                       const char *query);
/* Granted now to a fresh token, for a minute, or for `query`. */
const char *fair_hold(struct front *fe, const char *lock, const char *query);
/* How the lease with this token stands in the queue. */
const char *fair_place(struct front *fe, const char *lock, const char *token);

/* ---- the queue in Redis ---- */

const char *fair_queue(struct world *w, const char *lock);
const char *fair_times(struct world *w, const char *lock);
/* The list holds these, in this order (NULL at the end), and the zset the same ones. */
#define expect_queue(redis, lock, ...)                                                         \
    expect_queue_at(redis, lock, (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
#define expect_no_queue(redis, lock)                                                           \
    expect_queue_at(redis, lock, (const char *const[]){NULL}, __FILE__, __LINE__)
void expect_queue_at(struct redis *redis, const char *lock, const char *const *holders,
                     const char *file, int line);
/* When the watchdog is to visit the queue, epoch ms; NULL: never. */
const char *fair_visit(struct world *w, const char *lock);
long long queue_len(struct redis *redis, const char *lock);
/* When the waiter's time is over, from now on. */
long long fair_time_left(struct redis *redis, const char *lock, const char *holder);
/* Of the machine, as Java clients tell the time. */
int64_t epoch_ms(void);

/* ---- Java clients ---- */

/* JAVA_GOT_IT, or how long it sleeps before it asks again, in the queue meanwhile. */
long long java_fair_lock(struct redis *redis, const char *lock, const char *holder,
                         int lease_ms, int wait_ms);
/* False: busy. Takes no place. */
bool java_fair_try(struct redis *redis, const char *lock, const char *holder, int lease_ms);
void java_fair_give_up(struct redis *redis, const char *lock, const char *holder, int wait_ms);
/* 1: released, or nobody held it; 0: it holds on; -1: it does not hold. */
long long java_fair_unlock(struct redis *redis, const char *lock, const char *holder);

#endif
