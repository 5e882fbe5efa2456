/* L2: the time that a lock is certainly free while a request waits for it. What nobody may hold
 * any more, be it a waiter that hung up (L5) or an acquire without an answer (S6), is free. For
 * those who ask to read, a lock is free that others read. */
#include "tests/checker/check.h"

#include <stdlib.h>
#include <string.h>

#define MS(ns) ((long long)((ns) / NS_PER_MS))

/* From `t` on there is one possible holder, or one waiter, more or less. */
struct change {
    int64_t t;
    int holders, waiters;
    bool is_release, is_expiry; /* neither: a place in a queue, or nothing, has ended */
    const struct op *waiter;
};

struct changes {
    struct change *at;
    size_t count, size;
};

static void add_change(struct changes *changes, int64_t t, int holders, int waiters,
                       const struct op *waiter)
{
    if (changes->count == changes->size) {
        changes->size = changes->size ? 2 * changes->size : 64;
        changes->at = reallocarray(changes->at, changes->size, sizeof *changes->at);
        if (!changes->at)
            abort();
    }
    changes->at[changes->count++] = (struct change){
        .t = t, .holders = holders, .waiters = waiters, .waiter = waiter};
}

static int compare_changes(const void *a, const void *b)
{
    const struct change *left = a, *right = b;

    if (left->t != right->t)
        return left->t < right->t ? -1 : 1;
    return right->holders - left->holders;
}

/* A waiter of several locks needs them all, and a waiter at a front end in trouble, or of
 * Redisson, may not be there: none of them proves anything. */
static bool is_witness(const struct report *report, const struct op *op)
{
    int64_t after = report->bounds.trouble_ms * NS_PER_MS;

    return op->verb == OP_ACQUIRE && op->wait_ms > 0 && op->lock_count == 1 &&
           op->front != NO_FRONT && op->outcome != OUTCOME_ENDED &&
           op->outcome != OUTCOME_ABANDONED &&
           !history_is_front_troubled(report->history, op->front, op->t_inv, op->t_ret, after);
}

static bool is_read(const struct lease *lease)
{
    return lease->first->kind && strcmp(lease->first->kind, "read") == 0;
}

/* `of_reads`: who waits to read, and what keeps readers out. */
static void collect_changes(const struct report *report, const struct lock *lock, bool of_reads,
                            struct changes *changes)
{
    for (size_t i = 0; i < lock->leases.count; i++) {
        const struct lease *lease = lock->leases.at[i];
        if (lease->maybe_from < lease->maybe_to && !(of_reads && is_read(lease))) {
            add_change(changes, lease->maybe_from, 1, 0, NULL);
            add_change(changes, lease->maybe_to, -1, 0, NULL);
            changes->at[changes->count - 1].is_expiry = lease->expires;
            changes->at[changes->count - 1].is_release = !lease->expires &&
                                                         lease->told_from < FOR_EVER;
        }
        for (size_t k = 0; k < lease->ops.count; k++) {
            const struct op *op = lease->ops.at[k];
            if (!is_witness(report, op) || (of_reads && !is_read(lease)))
                continue;
            int64_t deadline = op->t_inv + op->wait_ms * NS_PER_MS;
            add_change(changes, op->t_inv, 0, 1, op);
            add_change(changes, op->t_ret < deadline ? op->t_ret : deadline, 0, -1, NULL);
        }
    }
    if (changes->count > 0)
        qsort(changes->at, changes->count, sizeof *changes->at, compare_changes);
}

/* How much of a stretch of time lies within faults. */
static int64_t time_in_faults(const struct history *history, int64_t from, int64_t to)
{
    int64_t sum = 0;

    for (size_t i = 0; i < history->faults.count; i++) {
        const struct fault *fault = history->faults.at[i];
        int64_t begin = fault->t_begin > from ? fault->t_begin : from;
        int64_t end = fault->t_end < to ? fault->t_end : to;
        if (begin < end)
            sum += end - begin;
    }
    return sum;
}

static void judge_free_time(struct report *report, const struct lock *lock, int64_t from,
                            int64_t to, const struct op *waiter, bool is_expiry)
{
    const struct bounds *bounds = &report->bounds;
    bool is_calm = !history_is_troubled(report->history, from, to,
                                        bounds->trouble_ms * NS_PER_MS);
    int64_t ms = MS(to - from - time_in_faults(report->history, from, to));

    if (is_calm && ms > report->longest_calm_free_ms)
        report->longest_calm_free_ms = ms;
    if (ms > report->longest_free_ms)
        report->longest_free_ms = ms;
    int64_t most = is_expiry ? bounds->expiry_ms : bounds->calm_ms;
    if (ms > (is_calm ? most : bounds->trouble_ms))
        violation(report, "L2",
                  "%s: free from %lld ms for %lld ms%s, and a request waits for it"
                  " (line %zu)",
                  lock->name, MS(from), (long long)ms, is_calm ? "" : " beyond the faults",
                  waiter ? waiter->line : 0);
}

static void sweep(struct report *report, const struct lock *lock, const struct changes *changes)
{
    int64_t holders = 0, waiters = 0, free_since = -1;
    int64_t places = lock->permits ? lock->permits : 1;
    const struct op *waiter = NULL;
    bool expired = false;

    for (size_t i = 0; i < changes->count; i++) {
        const struct change *change = &changes->at[i];
        bool was_free = holders < places && waiters > 0;
        holders += change->holders;
        waiters += change->waiters;
        if (change->waiter)
            waiter = change->waiter;
        if (change->is_expiry || change->is_release)
            expired = change->is_expiry;
        bool is_free = holders < places && waiters > 0;
        if (is_free && !was_free)
            free_since = change->t;
        else if (was_free && !is_free)
            judge_free_time(report, lock, free_since, change->t, waiter, expired);
    }
}

static void check_lock(struct report *report, const struct lock *lock, bool of_reads)
{
    struct changes changes = {0};

    collect_changes(report, lock, of_reads, &changes);
    sweep(report, lock, &changes);
    free(changes.at);
}

void check_wakeups(struct report *report)
{
    for (struct lock *lock = report->history->locks; lock; lock = lock->hh.next) {
        check_lock(report, lock, false);
        if (!lock->permits)
            check_lock(report, lock, true);
    }
}
