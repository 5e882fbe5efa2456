/* One visit of the watchdog, under a claim of index_claim.lua, which sets the next visit. A
 * visit that cannot go on leaves that to the end of the claim. `done` comes once, and never
 * before the call returns. */
#ifndef RLOCKD_STORAGE_SESSION_VISIT_H
#define RLOCKD_STORAGE_SESSION_VISIT_H

#include "storage/store/store.h"

enum { VISIT_CLAIM_SIZE = 24 };

typedef void visit_done(void *arg);

/* To a session: each lease that is due is renewed or found lost, and a session whose time is
 * over is ended. */
void session_visit(struct store *store, const char *session_id,
                   const char claim[VISIT_CLAIM_SIZE], visit_done *done, void *arg);

/* queue_visit.c: to the queue of a fair lock, by the lock's name in Redis: the places of
 * requests that are gone are removed, and the next waiter is told that the lock is free. */
void queue_visit(struct store *store, const char *name, const char claim[VISIT_CLAIM_SIZE],
                 visit_done *done, void *arg);

#endif
