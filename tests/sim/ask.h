/* One request: sent, answered, and written down. */
#ifndef RLOCKD_TESTS_SIM_ASK_H
#define RLOCKD_TESTS_SIM_ASK_H

#include "tests/sim/calls.h"

/* Beyond the wait: an answer that comes after that is no answer. */
#define TIMEOUT_NS (7 * CLOCK_NS_PER_S)

/* A request that is on its way, and what the history says of it. */
struct asking {
    struct caller *caller;
    struct front *front;
    const char *verb;
    struct request request;
    struct how how;
    const struct lease *lease;
    const struct session *session;
    const char *lock; /* of a request without a lease */
    bool must_work;
    struct answer answer;
    int64_t began_ns;
};

/* Of a task. The body of the answer is the caller's to free. */
enum result ask(struct asking *asking);
/* A member of the answer; 0: there is none. */
int64_t number_in(const struct answer *answer, const char *name);
/* That of one of several locks: an answer names them in an order of its own. 0: none. */
int64_t fencing_token_of(const struct answer *answer, const char *lock);

#endif
