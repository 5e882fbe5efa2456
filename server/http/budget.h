/* How much of one turn of the event loop the requests of clients may take, and which of them
 * are served in it. libmicrohttpd calls for every connection that is ready in each of its runs;
 * the budget says which of these calls do their work and which of them come again later. */
#ifndef RLOCKD_SERVER_HTTP_BUDGET_H
#define RLOCKD_SERVER_HTTP_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* A connection gets at most one request served in a round, and a turn begins a new round unless
 * the turn before was cut short. So every connection that is ready gets its turn: libmicrohttpd
 * always begins with the connection that has been ready for longest, and without rounds it
 * would serve only connections that have their next request ready at once. */
struct budget {
    int64_t end_ns;    /* of the turn */
    unsigned left;     /* requests and answers that this turn may still take */
    uint64_t round;    /* counts from 1 */
    bool is_exhausted; /* the turn takes no more */
    bool is_cut;       /* something was put off because the turn takes no more */
    bool has_put_off;  /* something was put off, for that reason or to the next round */
};

void budget_init(struct budget *budget);
void budget_begin_turn(struct budget *budget, int64_t now_ns);
/* Whether a whole request is served now. `*round` belongs to its connection and is 0 at first.
 * `now_ns` 0: the time is read from the clock if it is needed. */
bool budget_takes_request(struct budget *budget, uint64_t *round, int64_t now_ns)
    __attribute__((warn_unused_result));
/* Whether the answer to a request is sent now that was served in an earlier run. */
bool budget_takes_answer(struct budget *budget) __attribute__((warn_unused_result));
/* Whether the turn has to end now, by the clock or by what it has taken. */
bool budget_ends_turn(struct budget *budget) __attribute__((warn_unused_result));
/* Whether another turn is needed at once. */
bool budget_has_put_off(const struct budget *budget);

#endif
