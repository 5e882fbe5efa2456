/* The watchdog: renews the leases of live sessions and ends sessions whose time is over. The
 * index has the time of each session's next visit, the session's home the leases that are due.
 * A front end claims a visit for a while: so any front end may make it, and when a front end
 * dies another one makes the visit later. Each step may be repeated without harm. */
#ifndef RLOCKD_STORAGE_SESSION_WATCHDOG_H
#define RLOCKD_STORAGE_SESSION_WATCHDOG_H

#include "storage/store/store.h"

struct watchdog;

/* Starts its rounds. NULL: out of memory. */
struct watchdog *watchdog_new(struct store *store);
/* No callback of Redis may be pending any more. */
void watchdog_free(struct watchdog *watchdog);

#endif
