/* The watchdog: renews the leases of live sessions and ends sessions whose time is over. What
 * is due stands in Redis, and one script does the work, so any front end may come first, one
 * that dies takes nothing with it, and a second one does not do it twice. */
#ifndef RLOCKD_STORAGE_WATCHDOG_H
#define RLOCKD_STORAGE_WATCHDOG_H

#include "storage/lock_store.h"

struct watchdog;

/* Starts its rounds. NULL: out of memory. */
struct watchdog *watchdog_new(struct lock_store *store);
void watchdog_free(struct watchdog *watchdog);

#endif
