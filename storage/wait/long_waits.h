/* Requests that have waited for LONG_WAIT_MS. Facts that have to be known of them outside this
 * worker are written into Redis when such a wait begins, written again while it lasts, and
 * removed when it ends, all in long_waits.c. */
#ifndef RLOCKD_STORAGE_WAIT_LONG_WAITS_H
#define RLOCKD_STORAGE_WAIT_LONG_WAITS_H

#include "storage/store/store.h"
#include "storage/wait/acquire.h"

struct long_waits;

/* NULL: out of memory. */
struct long_waits *long_waits_new(struct store *store);
/* Every acquisition must have ended, and no callback of Redis may be pending any more. */
void long_waits_free(struct long_waits *long_waits);

/* A front end asks whether the session's long waits go on: see session_waits_read(). */
void long_waits_asked(struct long_waits *long_waits, const char *session_id,
                      const char *question);

/* The watcher that the acquirer is to be made with. */
const struct long_wait_watcher *long_waits_watcher(const struct long_waits *long_waits);

#endif
