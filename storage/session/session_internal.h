/* What the files about sessions share. */
#ifndef RLOCKD_STORAGE_SESSION_SESSION_INTERNAL_H
#define RLOCKD_STORAGE_SESSION_SESSION_INTERNAL_H

#include "storage/notes/notes.h"
#include "storage/session/session.h"

/* The outcome of a reply whose first value is a word, or of a failed call; with the reason of
 * SESSION_ENDED. */
void session_read_outcome(struct session_view *view, const struct redis_result *result);

/* Where the values stand in the replies of session_get.lua and session_keep_alive.lua, in the
 * order of their headers; the first value is a word. */
enum {
    OPEN_REPLY_REMAINING_MS = 1,
    OPEN_REPLY_TTL_MS,
    OPEN_REPLY_AGE_MS,
    OPEN_REPLY_NAME,
    OPEN_REPLY_NOW_MS,
    OPEN_REPLY_NOTES,
    OPEN_REPLY_LOST
};
enum { TOO_LONG_REPLY_TTL_MS = 1 }; /* of a wait that is too long */

/* end.c: session_end() by the watchdog, if the session's time is over or its end is to be
 * worked off. `logs_losses`: the client did not want the end. */
void session_end_expired(struct store *store, const char *session_id, bool logs_losses,
                         session_done *done, void *arg);

#endif
