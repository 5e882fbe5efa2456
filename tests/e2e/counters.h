/* What the tests of semaphores, permits and latches share: requests, and a Java client's side
 * of them as plain commands. */
#ifndef E2E_COUNTERS_H
#define E2E_COUNTERS_H

#include "harness.h"

/* `path` is below /v1/, with its query; `key` an Idempotency-Key or NULL. */
struct reply *counter_send(struct front *fe, const char *method, const char *path,
                           const char *key);
struct call *counter_call(struct front *fe, const char *method, const char *path,
                          const char *key);
/* The number in Redis; -1: there is none. */
long long counter_value(struct redis *redis, const char *key);
/* How many wait there, by what GET says: `path` as above. */
int counter_waiters(struct front *fe, const char *path);
/* The same with a Lease-Token, and a Session-Token unless it is NULL. */
struct reply *permit_send(struct front *fe, const char *method, const char *path,
                          const char *token, const char *session);
struct call *permit_call(struct front *fe, const char *path, const char *token);

/* RSemaphore.tryAcquire() and release(). */
bool redisson_acquire(struct redis *redis, const char *key, int permits);
void redisson_release(struct redis *redis, const char *key, const char *channel, int permits);
/* RPermitExpirableSemaphore, with a permit id of 16 letters; `ends_ms` in epoch ms. */
bool redisson_take_permit(struct redis *redis, const char *key, const char *id,
                          int64_t ends_ms);
/* RCountDownLatch.countDown() */
void redisson_count_down(struct redis *redis, const char *key);
int64_t redis_epoch_ms(struct redis *redis);

/* A front end whose Redis answers late: time enough to go while something is under way. */
struct slow {
    struct proxy *proxy;
    struct front *fe;
};

struct slow slow_start(struct world *w);
/* Until the front end and Redis have nothing to say to each other any more. */
void slow_settle(struct slow *slow);

#endif
