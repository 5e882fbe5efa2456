/* The rules that a history is held to: S1 to S7 for safety, L1 to L8 for liveness, T1 and T2
 * for what answers tell, B1 for what Redis is asked, B2 for documented limits, LEAK for what
 * has to end, and VACUOUS for a run that proves nothing. */
#ifndef RLOCKD_TESTS_CHECK_H
#define RLOCKD_TESTS_CHECK_H

#include "tests/checker/history.h"

/* Limits that depend on the machine and on the length of the run. */
struct bounds {
    int64_t calm_ms;    /* L2: a lock free while a lease waits for it, no fault near */
    int64_t expiry_ms;  /* L2: the same after a lease that ended by itself */
    int64_t trouble_ms; /* L2: beyond the faults that fall into it */
    int64_t answer_ms;  /* L3: an answer, beyond the wait, whatever Redis does */
    int64_t calm_answer_ms;
    int64_t deadlock_ms;  /* L6: a cycle of sessions that refuse */
    int64_t hang_up_ms;   /* L5: a waiter that hung up keeps a grant at most so long */
    int64_t late_ms;      /* a request without an answer has run by then, or never will */
    int64_t sweep_ms;     /* L1: beyond the longest lease, or place in a fair queue */
    int64_t turn_ms;      /* L7: a lock that many want and nobody holds for long */
    int64_t bystander_ms; /* L8: an answer about what nobody else wants, also in a flood */
    int64_t min_requests, min_grants, min_waits, min_releases, min_renewals, min_expiries;
    int64_t min_shared, min_reentrant, min_abandoned, min_repeats, min_sweeps;
};

struct report {
    FILE *out;
    const struct history *history;
    struct bounds bounds;
    struct list rules; /* struct rule_count: how often each was broken */
    int64_t excused;   /* overlaps that a declared loss of data explains */
    int64_t longest_calm_free_ms, longest_free_ms;
};

struct rule_count {
    const char *rule;
    int64_t broken;
};

void report_init(struct report *report, const struct history *history, FILE *out);
void report_release(struct report *report);
void violation(struct report *report, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int64_t report_broken(const struct report *report, const char *rule);
int64_t report_all_broken(const struct report *report);

/* Certain and possible holds of every lease and session; before any rule. */
void derive_holds(struct history *history, const struct bounds *bounds);

void check_tokens(struct report *report);    /* S1 */
void check_overlaps(struct report *report);  /* S2, S5 */
void check_leases(struct report *report);    /* S3, S4 */
void check_wakeups(struct report *report);   /* L2, and S6 and L5 by what blocks a waiter */
void check_answers(struct report *report);   /* L3 */
void check_queues(struct report *report);    /* L4 */
void check_deadlocks(struct report *report); /* L6 */
void check_told(struct report *report);      /* T1, S7 */
void check_looks(struct report *report);     /* T2 */
void check_turns(struct report *report);     /* L7, L8 */
void check_ends(struct report *report);      /* L1, B1, B2, LEAK */
void check_coverage(struct report *report);  /* VACUOUS */

/* All of them. */
void check_all(struct report *report, struct history *history);

/* Leases of one owner of one session share a lock. */
bool is_same_group(const struct lease *a, const struct lease *b);

#endif
