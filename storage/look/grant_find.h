/* Which reader of a read/write lock has a fencing token: a search in parts, for readers may be
 * many. */
#ifndef RLOCKD_STORAGE_LOOK_GRANT_FIND_H
#define RLOCKD_STORAGE_LOOK_GRANT_FIND_H

#include <stdbool.h>

#include "storage/store/call_outcome.h"

struct store;

/* Readers that a search looks at for certain. */
enum { GRANT_READERS_MAX = 5000 };

/* A fencing token as text. */
enum { FENCING_TOKEN_SIZE = 24 };

struct grant_found {
    enum call_outcome outcome; /* CALL_DONE, or why the search came to no end */
    const char *holder;        /* holder field; empty: no reader has the token */
    bool has_more_readers;     /* but one that the search did not look at may have it */
};

typedef void grant_find_done(void *arg, const struct grant_found *found);

/* `done` comes exactly once, and never before this returns. */
void grant_find(struct store *store, const char *name, const char *token, grant_find_done *done,
                void *arg);

#endif
