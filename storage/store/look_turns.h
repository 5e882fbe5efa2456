/* Turns for scripts that read many keys, and take Redis up to a millisecond each: a worker has
 * one of these scripts under way, or a few small ones, with a pause behind it if it took long,
 * and further scripts wait for their turn. So a script that acquires, renews or releases waits
 * for one of them at most, however many clients look. */
#ifndef RLOCKD_STORAGE_STORE_LOOK_TURNS_H
#define RLOCKD_STORAGE_STORE_LOOK_TURNS_H

#include "storage/store/store_call.h"
#include "storage/store/turns.h"

void look_turns_init(struct store *store);

/* As call_send(), at once or in turn. A look that has waited for as long as Redis may take for
 * an answer, or that finds too many ahead of it, is refused. */
void call_send_in_turn(struct store_call *call, redis_done *done, void *arg);

/* The same for a few commands that the turn's begin() sends. */
void look_turn_start(struct store *store, struct turn *turn);
/* The commands, which were sent at `sent_ns`, are answered. look_turns_go_on() has to follow.
 */
void look_turn_end(struct store *store, struct turn *turn, int64_t sent_ns);
void look_turns_go_on(struct store *store);

#endif
