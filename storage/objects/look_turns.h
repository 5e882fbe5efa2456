/* Turns for scripts that read many keys, and take Redis up to a millisecond each: a worker has
 * a few of these scripts under way, and further ones wait for their turn. So the scripts that
 * acquire, renew and release wait for few of them, however many clients look. */
#ifndef RLOCKD_STORAGE_OBJECTS_LOOK_TURNS_H
#define RLOCKD_STORAGE_OBJECTS_LOOK_TURNS_H

#include "storage/objects/store_call.h"

/* As call_send(), at once or in turn. A look that has waited for as long as Redis may take for
 * an answer, or that finds too many ahead of it, is refused. */
void call_send_in_turn(struct store_call *call, redis_done *done, void *arg);

#endif
