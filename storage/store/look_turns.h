/* Turns for scripts that read many keys, and take Redis up to a millisecond each: a worker has
 * one of these scripts under way, or a few small ones, with a pause behind it if it took long,
 * and further scripts wait for their turn. So a script that acquires, renews or releases waits
 * for one of them at most, however many clients look. Looks that find little are short, and not
 * among these: where the network to Redis takes its time, one at a time would be a few hundred
 * a second. */
#ifndef RLOCKD_STORAGE_STORE_LOOK_TURNS_H
#define RLOCKD_STORAGE_STORE_LOOK_TURNS_H

#include "storage/store/store_call.h"
#include "storage/store/turns.h"

/* Holders, waiters or permits that a look names at first: few objects have more. */
enum { FIRST_LOOK_MAX = 8 };

void look_turns_init(struct store *store);

/* As call_send(), at once or in turn. A look that has waited for as long as Redis may take for
 * an answer, or that finds too many ahead of it, is refused. */
void call_send_in_turn(struct store_call *call, redis_done *done, void *arg);

/* The same for a few short commands that the turn's begin() sends: no pause is behind them. */
void look_turn_start(struct store *store, struct turn *turn);
/* The commands are answered. look_turns_go_on() has to follow. */
void look_turn_end(struct store *store, struct turn *turn);
void look_turns_go_on(struct store *store);

#endif
