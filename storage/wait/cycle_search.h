/* Follows holders of locks to the locks for which they wait, until it comes back to where it
 * began: a cycle of waits, as far as can be seen by reading its links one after the other. */
#ifndef RLOCKD_STORAGE_WAIT_CYCLE_SEARCH_H
#define RLOCKD_STORAGE_WAIT_CYCLE_SEARCH_H

#include "storage/look/deadlock.h"
#include "storage/store/store.h"

/* Scripts of one search: each reads the holders of a lock, or the waits of a session. */
enum { CYCLE_SEARCH_SCRIPTS = 64 };

struct cycle_search;

/* `found`: the caller's, to be freed; NULL: no cycle was found. */
typedef void cycle_search_done(void *arg, struct deadlock *found);

/* Searches for a cycle with the wait of `self` for the locks of these names. Of `self` all is
 * filled in but what is said of a lock. A session whose leases have no owner may wait for a
 * lock that it holds by another lease: that is no cycle. A cycle whose youngest wait is `self`
 * is found before others: only the front end of the youngest wait refuses it, or tells of the
 * deadlock. `done` comes once, never before this returns, and not after cycle_search_cancel().
 */
struct cycle_search *cycle_search_start(struct store *store, const struct deadlock_member *self,
                                        const struct lock_names *names, cycle_search_done *done,
                                        void *arg);
void cycle_search_cancel(struct cycle_search *search);

#endif
