/* A run in which little happened, or in which a fault hurt nothing, proves nothing. */
#include "tests/checker/check.h"

#include <string.h>

#define WAITED_NS (20 * NS_PER_MS)

struct coverage {
    int64_t requests, grants, waits, releases, renewals, expiries;
    int64_t shared, reentrant, abandoned, repeats, sweeps;
};

static void count_op(const struct op *op, struct coverage *coverage)
{
    bool is_ok = op->outcome == OUTCOME_OK, acquires = op->verb == OP_ACQUIRE;

    coverage->requests++;
    coverage->grants += acquires && is_ok && op->status == 201;
    coverage->repeats += acquires && is_ok && op->status == 200;
    coverage->waits += acquires && is_ok && op->wait_ms > 0 &&
                       op->t_ret - op->t_inv > WAITED_NS;
    coverage->releases += op->verb == OP_RELEASE && is_ok;
    coverage->renewals += op->verb == OP_RENEW && is_ok;
    coverage->expiries += op->outcome == OUTCOME_ENDED && op->reason &&
                          strcmp(op->reason, "expired") == 0;
    coverage->reentrant += acquires && is_ok && op->hold_count > 1;
    coverage->abandoned += op->outcome == OUTCOME_ABANDONED;
    coverage->sweeps += op->is_sweep && is_ok;
}

/* Two readers that hold at one time. */
static int64_t count_shared(const struct lock *lock)
{
    int64_t count = 0, reach = 0;

    if (!lock->kind || (strcmp(lock->kind, "read") != 0 && strcmp(lock->kind, "write") != 0))
        return 0;
    for (size_t i = 0; i < lock->leases.count; i++) {
        const struct lease *lease = lock->leases.at[i];
        if (lease->told_from >= lease->told_to)
            continue;
        count += lease->told_from < reach;
        reach = lease->told_to > reach ? lease->told_to : reach;
    }
    return count;
}

static void want(struct report *report, const char *what, int64_t have, int64_t least)
{
    fprintf(report->out, "%-10s %lld\n", what, (long long)have);
    if (have < least)
        violation(report, "VACUOUS", "%lld %s: at least %lld make a run", (long long)have, what,
                  (long long)least);
}

static bool is_injected(const struct fault *fault)
{
    return !fault->scope || strcmp(fault->scope, "harness") != 0;
}

static bool is_first_of_its_kind(const struct history *history, size_t at)
{
    const struct fault *fault = history->faults.at[at];

    for (size_t i = 0; i < at; i++) {
        const struct fault *other = history->faults.at[i];
        if (is_injected(other) && strcmp(other->kind, fault->kind) == 0)
            return false;
    }
    return true;
}

static void show_faults(const struct report *report)
{
    const struct history *history = report->history;
    size_t count = 0, kinds = 0;

    for (size_t i = 0; i < history->faults.count; i++) {
        if (!is_injected(history->faults.at[i]))
            continue;
        count++;
        kinds += is_first_of_its_kind(history, i);
    }
    fprintf(report->out, "%-10s %zu of %zu kinds\n", "faults", count, kinds);
}

static void check_effects(struct report *report)
{
    for (size_t i = 0; i < report->history->faults.count; i++) {
        const struct fault *fault = report->history->faults.at[i];
        if (fault->effect <= 0)
            violation(report, "VACUOUS", "fault %s had no effect (line %zu)", fault->kind,
                      fault->line);
    }
}

static void check_checks(struct report *report)
{
    for (size_t i = 0; i < report->history->leaks.count; i++) {
        const struct leak *leak = report->history->leaks.at[i];
        if (leak->checks == 0)
            violation(report, "VACUOUS", "%s: never checked (line %zu)", leak->subject,
                      leak->line);
    }
}

void check_coverage(struct report *report)
{
    const struct bounds *bounds = &report->bounds;
    struct coverage coverage = {0};

    for (size_t i = 0; i < report->history->ops.count; i++)
        count_op(report->history->ops.at[i], &coverage);
    for (struct lock *lock = report->history->locks; lock; lock = lock->hh.next)
        coverage.shared += count_shared(lock);
    want(report, "requests", coverage.requests, bounds->min_requests);
    want(report, "grants", coverage.grants, bounds->min_grants);
    want(report, "waits", coverage.waits, bounds->min_waits);
    want(report, "releases", coverage.releases, bounds->min_releases);
    want(report, "renewals", coverage.renewals, bounds->min_renewals);
    want(report, "expiries", coverage.expiries, bounds->min_expiries);
    want(report, "shared", coverage.shared, bounds->min_shared);
    want(report, "reentrant", coverage.reentrant, bounds->min_reentrant);
    want(report, "abandoned", coverage.abandoned, bounds->min_abandoned);
    want(report, "repeats", coverage.repeats, bounds->min_repeats);
    want(report, "sweeps", coverage.sweeps, bounds->min_sweeps);
    show_faults(report);
    check_effects(report);
    check_checks(report);
}
