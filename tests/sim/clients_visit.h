/* What clients are shown of the scripts that Redis runs: those of clients_visit.c, and one of
 * clients_contest.c. */
#ifndef RLOCKD_TESTS_SIM_CLIENTS_VISIT_H
#define RLOCKD_TESTS_SIM_CLIENTS_VISIT_H

#include "tests/sim/redis.h"

/* Redis has run a script. `key`: the first of its KEYS. */
void visits_see(const char *script, struct bytes key);
void contest_see(const char *script, struct bytes key);

#endif
