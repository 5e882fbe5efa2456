/* The watchdog: renews the leases of live sessions and ends sessions whose time is over. When a
 * session is to be visited stands in the index, and what is due in the session's home; a visit
 * is claimed for a while, so any front end may make it, a front end that dies leaves it to
 * another, and each step may be repeated without harm. */
#ifndef RLOCKD_STORAGE_OBJECTS_WATCHDOG_H
#define RLOCKD_STORAGE_OBJECTS_WATCHDOG_H

#include "storage/objects/lock_store.h"

struct watchdog;

/* Starts its rounds. NULL: out of memory. */
struct watchdog *watchdog_new(struct lock_store *store);
/* No callback of Redis may be pending any more. */
void watchdog_free(struct watchdog *watchdog);

#endif
