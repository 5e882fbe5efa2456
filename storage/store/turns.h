/* Turns for expensive work: a worker has a few pieces of one kind of work under way. The other
 * pieces wait, first come, first served. Of the pieces of one owner one is under way at a time,
 * and those that wait do not delay the pieces of other owners. */
#ifndef RLOCKD_STORAGE_STORE_TURNS_H
#define RLOCKD_STORAGE_STORE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/loop.h"

/* One piece of work. Owned by the caller; it must live until its begin() was called with false,
 * or turn_end(). */
struct turn {
    /* `may`: false if the piece is refused, by TURNS_REFUSE. After true the caller calls
     * turn_end() once. */
    void (*begin)(void *arg, bool may);
    void *arg;
    const char *owner;        /* NULL: the piece has none */
    size_t weight;            /* how much of the limit the piece takes up: at least 1 */
    int64_t since_ns;         /* when turn_start() was called; loop_now_ns() */
    struct turn *prev, *next; /* utlist */
};

enum turns_patience {
    TURNS_REFUSE, /* pieces that have waited for 2 s, as long as Redis may take for an answer,
                     and the oldest piece if more than 1000 wait */
    TURNS_WAIT    /* every piece begins at last, and any number of pieces wait */
};

struct turns {
    struct loop *loop;
    enum turns_patience patience;
    size_t most, under_way, waiting_count;
    struct turn *waiting, *running;
    struct timer pause; /* armed: no piece begins */
};

/* `most`: the weight of the pieces under way at a time. A piece that is heavier begins when no
 * other is under way. */
void turns_init(struct turns *turns, struct loop *loop, size_t most,
                enum turns_patience patience);
void turns_release(struct turns *turns);

/* Whether a piece of weight 1 without an owner that comes now begins at once. */
bool turns_are_free(const struct turns *turns);
/* Calls the piece's begin(), at once or later. */
void turn_start(struct turns *turns, struct turn *turn);
/* A piece has ended. turns_go_on() has to follow. */
void turn_end(struct turns *turns, struct turn *turn);
/* No piece begins for so long. */
void turns_pause(struct turns *turns, int64_t ns);
/* The pieces that wait begin as far as they may, or are refused. */
void turns_go_on(struct turns *turns);

#endif
