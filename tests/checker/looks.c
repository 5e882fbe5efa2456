/* T2: what GET shows of a lock. Only a calm look is judged: a Redis that was the master, or a
 * script that ran late, may show what was. */
#include "tests/checker/check.h"

#include <string.h>

#define MS(ns) ((long long)((ns) / NS_PER_MS))
#define SECOND_NS (1000 * NS_PER_MS)

/* A waiter is registered when its first attempt is answered, and gone when the grant is; its
 * answer may be on its way for a while. */
#define SETTLED_NS (500 * NS_PER_MS)

static bool is_shown(const struct look *look, const struct lease *lease)
{
    for (size_t i = 0; i < look->holder_count; i++)
        if (look->holders[i] == lease->id ||
            (lease->first->owner && look->holders[i] == lease->first->owner))
            return true;
    return false;
}

/* Leases that certainly hold, and are not shown. A lease of a quorum may hold at a bare
 * majority of the servers; it has no majority any more when one of these servers comes back
 * empty. */
static void check_hidden(struct report *report, const struct lock *lock,
                         const struct look *look)
{
    for (size_t i = 0; i < lock->leases.count; i++) {
        const struct lease *lease = lock->leases.at[i];
        if (lease->told_from < look->t_inv && lease->told_to > look->t_ret &&
            !lease->is_split && !is_shown(look, lease) && lease->first->front != NO_FRONT &&
            !history_lost_data(report->history, lease->asked_from, look->t_ret) &&
            !history_restarted(report->history, lease->asked_from, look->t_ret))
            violation(report, "T2",
                      "%s: lease %s (line %zu) holds, and is not shown (line %zu)", lock->name,
                      lease->id, lease->first->line, look->line);
    }
}

/* Who is shown, and holds for certain not. */
static void check_shown(struct report *report, const struct lock *lock, const struct look *look)
{
    for (size_t i = 0; i < look->holder_count; i++) {
        bool may_hold = false;
        for (size_t k = 0; k < lock->leases.count && !may_hold; k++) {
            const struct lease *lease = lock->leases.at[k];
            may_hold = (look->holders[i] == lease->id ||
                        (lease->first->owner && look->holders[i] == lease->first->owner)) &&
                       lease->asked_from <= look->t_ret &&
                       lease->maybe_to + SECOND_NS > look->t_inv;
        }
        if (!may_hold)
            violation(report, "T2", "%s: %s is shown as a holder, and holds nothing (line %zu)",
                      lock->name, look->holders[i], look->line);
    }
}

/* Whether the request waits all the time from before the look until after it; `slack`: or may
 * wait at some time of the look. */
static bool waits(const struct op *op, const struct look *look, int64_t slack)
{
    int64_t end = op->t_inv + op->wait_ms * NS_PER_MS;

    end = op->t_ret < end ? op->t_ret : end;
    return op->verb == OP_ACQUIRE && op->wait_ms > 0 && op->front != NO_FRONT &&
           op->t_inv - slack < look->t_inv && end + slack > look->t_ret;
}

/* Redis may have lost the entry of a waiter. The next attempt of the waiter makes a new one,
 * and of the waiters of a lock at one worker only the first makes attempts. */
static bool is_registered(const struct history *history, const struct op *op,
                          const struct look *look)
{
    return !history_lost_data(history, op->t_inv, look->t_ret);
}

static void check_waiters(struct report *report, const struct lock *lock,
                          const struct look *look)
{
    int64_t least = 0, most = 0;

    if (!lock->kind || strcmp(lock->kind, "lock") != 0)
        return;
    for (size_t i = 0; i < lock->leases.count; i++) {
        const struct lease *lease = lock->leases.at[i];
        bool is_certain = false, is_possible = false;
        for (size_t k = 0; k < lease->ops.count; k++) {
            const struct op *op = lease->ops.at[k];
            is_possible |= waits(op, look, SETTLED_NS);
            is_certain |= lease->first->lock_count == 1 && waits(op, look, -SETTLED_NS) &&
                          op->outcome == OUTCOME_OK && is_registered(report->history, op, look);
        }
        least += is_certain;
        most += is_possible;
    }
    /* A front end that was killed leaves its waiters behind until their waits would have ended.
     */
    if (history_is_troubled(report->history, 0, look->t_ret, 0))
        most = INT64_MAX;
    if (look->waiters < least || look->waiters > most)
        violation(report, "T2", "%s: %lld waiters are shown, %lld to %lld wait (line %zu)",
                  lock->name, (long long)look->waiters, (long long)least, (long long)most,
                  look->line);
}

void check_looks(struct report *report)
{
    const struct history *history = report->history;
    int64_t after = report->bounds.trouble_ms * NS_PER_MS;

    for (size_t i = 0; i < history->looks.count; i++) {
        const struct look *look = history->looks.at[i];
        struct lock *lock;
        HASH_FIND_STR(history->locks, look->lock, lock);
        if (!lock || history_is_troubled(history, look->t_inv, look->t_ret, after))
            continue;
        check_hidden(report, lock, look);
        check_shown(report, lock, look);
        check_waiters(report, lock, look);
    }
}
