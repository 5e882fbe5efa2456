/* One visit of the watchdog, under a claim of index_claim.lua, which sets the next visit. A
 * visit that cannot go on leaves that to the end of the claim. `done` comes once, and never
 * before the call returns. */
#ifndef RLOCKD_STORAGE_SESSION_VISIT_H
#define RLOCKD_STORAGE_SESSION_VISIT_H

#include <stddef.h>

#include "storage/store/lease.h"
#include "storage/store/store.h"

enum {
    VISIT_CLAIM_SIZE = 24,
    SESSIONS_VISIT_MAX = 16 /* at a time */
};

typedef void visit_done(void *arg);

/* To a session: each lease that is due is renewed or found lost, and a session whose time is
 * over is ended. */
void session_visit(struct store *store, const char *session_id,
                   const char claim[VISIT_CLAIM_SIZE], visit_done *done, void *arg);

/* idle.c: to sessions of one partition, all in one place of Redis: one call for those that have
 * nothing due, which are most, and a visit to each other one. `done` comes once for each. */
void sessions_visit(struct store *store, char (*ids)[SESSION_ID_SIZE], size_t count,
                    const char claim[VISIT_CLAIM_SIZE], visit_done *done, void *arg);

/* queue_visit.c: to the queue of a fair lock, by the lock's name in Redis: the places of
 * requests that are gone are removed, and the next waiter is told that the lock is free. */
void queue_visit(struct store *store, const char *name, const char claim[VISIT_CLAIM_SIZE],
                 visit_done *done, void *arg);

#endif
