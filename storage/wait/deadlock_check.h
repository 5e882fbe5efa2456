/* A check whether a wait is part of a deadlock: a search for a cycle, and the proof that all
 * its links were there at one moment.
 *
 * The links were read one after the other, so some may have been gone before others came. The
 * check publishes a question, which the front ends of the other waits answer in the sessions'
 * homes, each for a wait that still goes on; then every link is read again. A wait with the
 * same id and an answer has lasted from the search to the answer, a lock with the same grant
 * from the one reading to the other: so all of them were there when the search ended.
 * tests/model/deadlock.py shows this, and what goes wrong with less. */
#ifndef RLOCKD_STORAGE_WAIT_DEADLOCK_CHECK_H
#define RLOCKD_STORAGE_WAIT_DEADLOCK_CHECK_H

#include "storage/look/deadlock.h"
#include "storage/store/turns.h"

struct deadlock_check;

/* `found`: the caller's, to be freed; its first member is `self`. NULL: no deadlock is known.
 */
typedef void deadlock_check_done(void *arg, struct deadlock *found);

/* Checks the wait of `self` for the locks of these names, in its turn of `turns`. Of `self` all
 * is filled in but what is said of a lock; it and the names must stay until the end. `done`
 * comes once, never before this returns, and not after deadlock_check_cancel(). */
struct deadlock_check *deadlock_check_start(struct store *store, struct turns *turns,
                                            const struct deadlock_member *self,
                                            const struct lock_names *names,
                                            deadlock_check_done *done, void *arg);
void deadlock_check_cancel(struct deadlock_check *check);

#endif
