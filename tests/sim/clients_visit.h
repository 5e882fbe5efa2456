/* What the client of clients_visit.c is shown. */
#ifndef RLOCKD_TESTS_SIM_CLIENTS_VISIT_H
#define RLOCKD_TESTS_SIM_CLIENTS_VISIT_H

#include "tests/sim/redis.h"

/* Redis has run a script. `key`: the first of its KEYS. */
void visits_see(const char *script, struct bytes key);

#endif
