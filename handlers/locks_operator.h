/* Force-unlock, by whichever protocol. */
#ifndef RLOCKD_HANDLERS_LOCKS_OPERATOR_H
#define RLOCKD_HANDLERS_LOCKS_OPERATOR_H

#include "handlers/lease_request.h"

/* Frees the lock of the request; `forced` answers it, and every failure is answered here.
 * `only`: see struct force_order. The reason is the lease's note, for it is as long. The
 * caller's right is checked before. */
void locks_force(struct lease_request *request, const char *only,
                 void (*forced)(struct lease_request *request, bool unlocked));

/* The answer of the API. */
void locks_reply_forced(struct lease_request *request, bool unlocked);

#endif
