/* Turns for expensive work: a worker has a few pieces of one kind of work under way. The other
 * pieces wait, first come, first served, for 2 s at most: as long as Redis may take for an
 * answer. Of the pieces of one owner one is under way at a time, and those that wait do not
 * delay the pieces of other owners. */
#ifndef RLOCKD_STORAGE_STORE_TURNS_H
#define RLOCKD_STORAGE_STORE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/loop.h"

/* One piece of work. Owned by the caller; it must live until its begin() was called with false,
 * or turn_end(). */
struct turn {
    /* `may`: false if the piece has waited too long, or too many pieces wait behind it. After
     * true the caller calls turn_end() once. */
    void (*begin)(void *arg, bool may);
    void *arg;
    const char *owner;        /* NULL: the piece has none */
    int64_t since_ns;         /* when turn_start() was called; loop_now_ns() */
    struct turn *prev, *next; /* utlist */
};

struct turns {
    struct loop *loop;
    size_t most, under_way, waiting_count;
    struct turn *waiting, *running;
    struct timer pause; /* armed: no piece begins */
};

/* `most`: how many pieces are under way at a time. */
void turns_init(struct turns *turns, struct loop *loop, size_t most);
void turns_release(struct turns *turns);

/* Whether a piece without an owner that comes now begins at once. */
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
