/* The order of a fair lock in a race: the watch sees which leases stand in the lock's queue,
 * and judges each grant. No request that was sent after another one was seen in the queue is
 * granted the lock before that one. */
#ifndef E2E_RACERS_FAIR_H
#define E2E_RACERS_FAIR_H

#include "racers.h"

struct fair_watch;

/* Lives as long as the test. */
struct fair_watch *fair_watch_new(struct world *w, const char *lock);
/* The time by the watch's clock, which goes on with each look and each tick: to be asked before
 * a request is sent. */
long fair_watch_tick(struct fair_watch *watch);
/* By the thread of the test: reads the queue. */
void fair_watch_look(struct fair_watch *watch);
/* The racer's last answer grants it the lock; its first request was sent at `asked`. */
void fair_watch_grant(struct fair_watch *watch, struct racer *racer, long asked);
/* How many grants went to leases that were seen in the queue. */
long fair_watch_ordered(const struct fair_watch *watch);

#endif
