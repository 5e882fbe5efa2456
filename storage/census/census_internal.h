/* What the files of storage/census/ share. */
#ifndef RLOCKD_STORAGE_CENSUS_CENSUS_INTERNAL_H
#define RLOCKD_STORAGE_CENSUS_CENSUS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "server/base/clock.h"
#include "storage/census/picture.h"

struct loop;
struct store;
struct store_call;
struct timer;

/* After each step the census rests for 99 times as long as the step took, the way to Redis and
 * back included. So it takes one hundredth of Redis' time at most, and less when Redis or the
 * worker is busy. */
enum { CENSUS_REST_FACTOR = 99 };

/* A step never counts as shorter, nor as longer than this: what takes longer is no work of
 * Redis, but a machine that stands still, and the pictures would be as late as 99 of it. */
#define CENSUS_STEP_MIN_NS (100 * CLOCK_NS_PER_US)
#define CENSUS_STEP_MAX_NS (20 * CLOCK_NS_PER_MS)

/* Arms the timer for the end of the rest behind a step that began then (clock_ns()). */
void census_rest(struct store *store, struct timer *rest, int64_t step_began_ns);

/* The picture's name in Redis. */
const char *census_kind_name(enum census_kind kind);
/* Fills in the key of the census, as number `at` of the KEYS. */
void census_key(struct store_call *call, struct store *store, size_t at);

#endif
