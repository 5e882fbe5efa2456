/* L1, L3, L4, and what must stay bounded. */
#include "tests/checker/check.h"

#include <stdlib.h>
#include <string.h>

#define MS(ns) ((long long)((ns) / NS_PER_MS))
#define SECOND_NS (1000 * NS_PER_MS)

/* What a waiter, a request and a second may cost Redis, in scripts. A waiter asks every 4 to
 * 6 s and when a message calls it. */
#define SCRIPTS_PER_REQUEST 3
/* The same at each server of a quorum, for so many servers. A request whose votes are split
 * votes and withdraws again: three times where two of three have to agree, more often where
 * three of five do. */
#define SCRIPTS_PER_REQUEST_AND_SERVER 2
#define SCRIPTS_PER_WAITER_SECOND 5
#define SCRIPTS_PER_SECOND 100
/* A server of a quorum that stood still, or was held, has caught up in this time. */
#define BACKLOG_NS (16 * SECOND_NS)

/* --- L3
 * --------------------------------------------------------------------------------------- */

static void check_answer(struct report *report, const struct op *op)
{
    const struct bounds *bounds = &report->bounds;
    const struct history *history = report->history;
    int64_t took = op->t_ret - op->t_inv, wait = op->wait_ms * NS_PER_MS;
    bool is_excused = history_is_front_troubled(history, op->front, op->t_inv, op->t_ret,
                                                2 * SECOND_NS);

    if (op->malformed)
        violation(report, "L3", "line %zu: %s", op->line, op->malformed);
    if (is_excused || op->outcome == OUTCOME_ABANDONED || op->front == NO_FRONT)
        return;
    if (op->outcome == OUTCOME_UNKNOWN && op->status == 0)
        violation(report, "L3", "line %zu: front end %lld gave no answer in %lld ms", op->line,
                  (long long)op->front, MS(took));
    else if (took > wait + bounds->answer_ms * NS_PER_MS)
        violation(report, "L3", "line %zu: front end %lld answered after %lld ms, wait_ms %lld",
                  op->line, (long long)op->front, MS(took), (long long)op->wait_ms);
    else if (took > wait + bounds->calm_answer_ms * NS_PER_MS &&
             !history_is_troubled(history, op->t_inv, op->t_ret,
                                  bounds->trouble_ms * NS_PER_MS))
        violation(report, "L3",
                  "line %zu: front end %lld answered after %lld ms, wait_ms %lld,"
                  " and no fault was near",
                  op->line, (long long)op->front, MS(took), (long long)op->wait_ms);
}

void check_answers(struct report *report)
{
    for (size_t i = 0; i < report->history->ops.count; i++)
        check_answer(report, report->history->ops.at[i]);
}

/* --- L4: first come, first served ------------------------------------------------------------
 */

/* A later waiter counts when the earlier one was certainly in the queue before it came. */
#define AHEAD_NS (500 * NS_PER_MS)

/* A lease in the queue: its first request, and those that came back for its place. */
struct stay {
    const struct op *first, *last;
};

static bool is_queued(const struct op *op)
{
    return op->verb == OP_ACQUIRE && op->wait_ms > 0 &&
           (op->outcome == OUTCOME_OK || op->outcome == OUTCOME_NOT_DONE);
}

/* Whether a request goes on with the stay that another one with its token has left: only the
 * answer "locked" leaves a place. */
static bool goes_on(const struct history *history, const struct op *before, const struct op *op)
{
    int64_t place = history->place_ms * NS_PER_MS - SECOND_NS;

    return before->outcome == OUTCOME_NOT_DONE && before->status == 423 &&
           op->verb == OP_ACQUIRE && op->t_inv > before->t_ret &&
           op->t_inv < before->t_ret + place &&
           (op->outcome == OUTCOME_OK ||
            (op->outcome == OUTCOME_NOT_DONE && op->status == 423));
}

/* False: the lease never was in the queue for certain. */
static bool find_stay(const struct history *history, const struct lease *lease,
                      struct stay *stay)
{
    stay->first = stay->last = lease->ops.at[0];
    if (!is_queued(stay->first))
        return false;
    for (size_t i = 1; i < lease->ops.count && goes_on(history, stay->last, lease->ops.at[i]);
         i++)
        stay->last = lease->ops.at[i];
    return true;
}

static void check_bypass(struct report *report, const struct lock *lock,
                         const struct stay *first, const struct stay *later)
{
    int64_t after = report->bounds.trouble_ms * NS_PER_MS;
    int64_t from = first->first->t_inv, to = later->last->t_ret;

    if (later->first->t_inv < from + AHEAD_NS || to + AHEAD_NS > first->last->t_ret)
        return;
    if (later->last->outcome != OUTCOME_OK || later->last->status != 201)
        return;
    if (later->last->hold_count > 1)
        return; /* its owner has the lock already */
    if (history_is_troubled(report->history, from, to, after))
        return;
    violation(report, "L4",
              "%s: the waiter of line %zu came %lld ms before that of line %zu,"
              " which got the lock first (lines %zu and %zu)",
              lock->name, first->first->line, MS(later->first->t_inv - from),
              later->first->line, first->last->line, later->last->line);
}

static void check_queue(struct report *report, const struct lock *lock)
{
    struct stay *stays = calloc(lock->leases.count + 1, sizeof *stays);
    size_t count = 0;

    if (!stays)
        abort();
    for (size_t i = 0; i < lock->leases.count; i++)
        count += find_stay(report->history, lock->leases.at[i], &stays[count]);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++)
            check_bypass(report, lock, &stays[i], &stays[k]);
    free(stays);
}

void check_queues(struct report *report)
{
    for (struct lock *lock = report->history->locks; lock; lock = lock->hh.next)
        if (lock->kind && strcmp(lock->kind, "fair") == 0)
            check_queue(report, lock);
}

/* --- L1, B1, B2, LEAK
 * ------------------------------------------------------------------------- */

static void check_sweeps(struct report *report)
{
    const struct history *history = report->history;

    for (size_t i = 0; i < history->ops.count; i++) {
        const struct op *op = history->ops.at[i];
        if (!op->is_sweep)
            continue;
        bool is_fair = op->kind && strcmp(op->kind, "fair") == 0;
        int64_t longest = history->max_ttl_ms;
        if (is_fair && 2 * history->place_ms > longest)
            longest = 2 * history->place_ms;
        int64_t most = (longest + report->bounds.sweep_ms) * NS_PER_MS;
        if (op->outcome != OUTCOME_OK)
            violation(report, "L1", "%s: nobody gets it any more (line %zu, status %lld)",
                      op->lock_count ? op->locks[0] : "?", op->line, (long long)op->status);
        else if (op->t_ret - op->t_inv > most)
            violation(report, "L1", "%s: free only after %lld ms (line %zu)",
                      op->lock_count ? op->locks[0] : "?", MS(op->t_ret - op->t_inv), op->line);
    }
}

static int64_t most_scripts(const struct rate *rate)
{
    int64_t ms = MS(rate->t_end - rate->t_begin);
    int64_t each = rate->servers > 1 ? SCRIPTS_PER_REQUEST_AND_SERVER * (int64_t)rate->servers
                                     : SCRIPTS_PER_REQUEST;

    return each * rate->requests + SCRIPTS_PER_WAITER_SECOND * rate->waiters * ms / 1000 +
           SCRIPTS_PER_SECOND * ms / 1000 + SCRIPTS_PER_SECOND;
}

static void too_many(struct report *report, const struct rate *rate, int64_t scripts,
                     int64_t from)
{
    violation(report, "B1",
              "line %zu: %lld scripts in %lld ms for %lld requests and at most %lld waiters",
              rate->line, (long long)scripts, (long long)MS(rate->t_end - from),
              (long long)rate->requests, (long long)rate->waiters);
}

/* The number of which as many servers ran less as ran more. A minority that stood still, or was
 * held, runs at once what it was asked meanwhile. */
static int64_t middle_of(const struct rate *rate)
{
    int64_t middle = rate->scripts[0];

    for (size_t i = 0; i < rate->servers; i++) {
        size_t below = 0, same = 0;
        for (size_t k = 0; k < rate->servers; k++) {
            below += rate->scripts[k] < rate->scripts[i];
            same += rate->scripts[k] == rate->scripts[i];
        }
        if (below <= rate->servers / 2 && below + same > rate->servers / 2)
            middle = rate->scripts[i];
    }
    return middle;
}

/* Each server of a quorum, with what it may have had to catch up with. */
static void check_backlogs(struct report *report, size_t at)
{
    const struct rate *rate = report->history->rates.at[at];
    int64_t scripts[QUORUM_MAX] = {0}, most = 0, from = rate->t_end;

    for (size_t i = at + 1; i-- > 0;) {
        const struct rate *before = report->history->rates.at[i];
        if (before->t_begin < rate->t_end - BACKLOG_NS)
            break;
        from = before->t_begin;
        most += most_scripts(before);
        for (size_t k = 0; k < rate->servers; k++)
            scripts[k] += before->scripts[k];
    }
    for (size_t k = 0; k < rate->servers; k++)
        if (scripts[k] > most)
            too_many(report, rate, scripts[k], from);
}

static void check_rates(struct report *report)
{
    for (size_t i = 0; i < report->history->rates.count; i++) {
        const struct rate *rate = report->history->rates.at[i];
        if (middle_of(rate) > most_scripts(rate))
            too_many(report, rate, middle_of(rate), rate->t_begin);
        else if (rate->servers > 1)
            check_backlogs(report, i);
    }
}

/* Redis that loses data may have forgotten what counts, and each server of a quorum counts what
 * has reached it. */
static bool may_miscount(const struct report *report, const struct limit *limit)
{
    const struct history *history = report->history;

    return history_lost_data(history, limit->t_begin, limit->t_end) ||
           (history->quorum > 0 && history_is_troubled(history, limit->t_begin, limit->t_end,
                                                       report->bounds.trouble_ms * NS_PER_MS));
}

static void check_limits(struct report *report)
{
    for (size_t i = 0; i < report->history->limits.count; i++) {
        const struct limit *limit = report->history->limits.at[i];
        if (limit->is_granted == (limit->had < limit->most))
            continue;
        if (may_miscount(report, limit))
            report->excused++;
        else
            violation(
                report, "B2", "%s: one more than %lld is %s, the limit is %lld (line %zu)",
                limit->subject, (long long)limit->had,
                limit->is_granted ? "granted" : "refused", (long long)limit->most, limit->line);
    }
}

static void check_leaks(struct report *report)
{
    for (size_t i = 0; i < report->history->leaks.count; i++) {
        const struct leak *leak = report->history->leaks.at[i];
        if (leak->now > leak->base + leak->allowed)
            violation(report, "LEAK", "%s: %lld, at first %lld%s%s (line %zu)", leak->subject,
                      (long long)leak->now, (long long)leak->base, leak->detail ? ": " : "",
                      leak->detail ? leak->detail : "", leak->line);
    }
}

void check_ends(struct report *report)
{
    check_sweeps(report);
    check_rates(report);
    check_limits(report);
    check_leaks(report);
}
