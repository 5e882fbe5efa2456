/* The locks that requests of any front end wait for, for long: an index in Redis, by the
 * census, which looks at each lock of it. */
#ifndef RLOCKD_STORAGE_CENSUS_WAITED_H
#define RLOCKD_STORAGE_CENSUS_WAITED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/timers.h"
#include "storage/census/picture.h"

struct store;

/* The round has looked at all locks of the index, or it was given up. */
typedef void waited_done(void *arg, bool is_complete);

/* A round of looks, one after the other, with a rest behind each: see census_rest(). */
struct waited {
    struct store *store;
    size_t partition; /* that is asked next */
    char **names;     /* that were found last, as clients say them */
    size_t name_count, next_name;
    bool is_running, is_given_up;
    struct timer rest;
    int64_t step_began_ns;
    int64_t began_ns, began_ms; /* by this worker's clock and by Redis' */
    waited_done *done;
    void *arg;
    /* What it has found: */
    struct census_picture picture;
    int64_t long_count;
};

void waited_init(struct waited *waited, struct store *store);
void waited_release(struct waited *waited);
/* As walk_start(), walk_give_up() and walk_now_ms(). */
void waited_start(struct waited *waited, int64_t redis_now_ms, waited_done *done, void *arg);
void waited_give_up(struct waited *waited);
int64_t waited_now_ms(const struct waited *waited);

#endif
