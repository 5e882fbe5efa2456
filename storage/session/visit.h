/* One visit of the watchdog to one session: each lease that is due is renewed or found lost,
 * and a session whose time is over is ended. */
#ifndef RLOCKD_STORAGE_SESSION_VISIT_H
#define RLOCKD_STORAGE_SESSION_VISIT_H

#include "storage/store/store.h"

enum { SESSION_CLAIM_SIZE = 24 };

typedef void session_visit_done(void *arg);

/* Visits a session under a claim of index_claim.lua, and sets its next visit. A visit that
 * cannot go on leaves that to the end of the claim. `done` comes once, and never before this
 * returns. */
void session_visit(struct store *store, const char *session_id,
                   const char claim[SESSION_CLAIM_SIZE], session_visit_done *done, void *arg);

#endif
