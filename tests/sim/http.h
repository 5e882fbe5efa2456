/* Requests of simulated clients to the front ends, and their answers. */
#ifndef RLOCKD_TESTS_SIM_HTTP_H
#define RLOCKD_TESTS_SIM_HTTP_H

#include "server/http/http.h"
#include "tests/sim/front.h"
#include "tests/sim/redis.h"

struct request {
    const char *method;
    char uri[2048];
    char lease_token[40], session_token[40], idempotency_key[40]; /* empty: not sent */
    int64_t timeout_ns;
    int64_t abandon_ns; /* hangs up after so long; 0: does not */
};

struct answer {
    int status; /* 0: none came */
    bool is_sent, is_abandoned, is_problem;
    json_t *body; /* NULL: no JSON; the caller's to free */
};

void http_init(uint64_t seed);
/* Of a task: asks and waits. */
struct answer http_ask(struct front *front, const struct request *request);
/* The front end's process is gone. */
void http_lose_all(struct front *front);
/* Resets every client's connection; returns how many. */
int64_t http_reset_all(struct front *front);
/* What was held back between clients and the front end goes on. */
void http_heal(struct front *front);

#endif
