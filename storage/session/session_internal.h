/* Shared by the files about sessions. */
#ifndef RLOCKD_STORAGE_SESSION_SESSION_INTERNAL_H
#define RLOCKD_STORAGE_SESSION_SESSION_INTERNAL_H

#include "storage/notes/notes.h"
#include "storage/session/session.h"

/* The outcome of a reply whose first value is a word, or of a failed call; with the reason of
 * SESSION_ENDED. */
void session_read_outcome(struct session_view *view, const struct redis_result *result);

/* end.c: session_end() by the watchdog, if the session's time is over or its end is to be
 * worked off. `logs_losses`: the client did not want the end. */
void session_end_expired(struct store *store, const char *session_id, bool logs_losses,
                         session_done *done, void *arg);

#endif
