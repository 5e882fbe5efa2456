/* Where everything random of a run comes from: one seed, and a stream of its own for each part
 * of the run, so that what one part asks does not change what another one gets. */
#ifndef RLOCKD_TESTS_SIM_CHANCE_H
#define RLOCKD_TESTS_SIM_CHANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chance {
    uint64_t state;
};

struct chance chance_make(uint64_t seed, const char *name);
uint64_t chance_next(struct chance *chance);
/* From 0 to `limit` - 1. */
uint64_t chance_below(struct chance *chance, uint64_t limit);
/* From `least` to `most`, both included. */
int64_t chance_between(struct chance *chance, int64_t least, int64_t most);
/* True in so many of 100 cases. */
bool chance_percent(struct chance *chance, unsigned percent);
void chance_bytes(struct chance *chance, void *out, size_t len);

#endif
