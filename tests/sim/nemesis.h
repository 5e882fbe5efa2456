/* The faults of a run. */
#ifndef RLOCKD_TESTS_SIM_NEMESIS_H
#define RLOCKD_TESTS_SIM_NEMESIS_H

#include <stddef.h>
#include <stdint.h>

/* Those whose name has the word. Returns how many. */
size_t nemesis_choose(uint64_t seed, const char *word);
/* A task: hurts until the run is stopping. */
void nemesis_run(void *arg);

#endif
