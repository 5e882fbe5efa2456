/* Tells people who holds the lock that they wait for. */
#ifndef RLOCK_CLIENT_HOLDER_H
#define RLOCK_CLIENT_HOLDER_H

#include <jansson.h>

#include "client/lease.h"

/* The name of a holder or a waiter: its note, its session, Redisson's name, or an id. NULL:
 * it has none. Lives as long as the object. */
const char *holder_name(json_t *holder);

/* Writes the status line, with --verbose a line once, and the status for the service manager.
 * `problem` is the body of an answer "locked". Where there is a status line, one request asks
 * how many wait in front. */
void holder_tell(struct lease *lease, json_t *problem);

#endif
