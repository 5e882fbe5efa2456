/* S3 and S4: each lease and each session for itself. */
#include "tests/checker/check.h"

#include <string.h>

#define MS(ns) ((long long)((ns) / NS_PER_MS))
#define SECOND_NS (1000 * NS_PER_MS)

static bool is_granted(const struct op *op)
{
    return op->outcome == OUTCOME_OK && (op->verb == OP_ACQUIRE || op->verb == OP_RENEW);
}

/* Whoever never asked for a lease can neither renew nor release it. */
static void check_authority(struct report *report, const struct lease *lease)
{
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        bool uses = op->verb == OP_RENEW || op->verb == OP_RELEASE;
        if (uses && op->outcome == OUTCOME_OK && op->t_ret < lease->asked_from)
            violation(report, "S3",
                      "%s: a token that no request had asked with was good for a"
                      " %s (line %zu)",
                      lease->id, op->verb == OP_RENEW ? "renewal" : "release", op->line);
    }
}

static void check_same_answers(struct report *report, const struct lease *lease)
{
    const struct op *first = NULL;

    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (!is_granted(op))
            continue;
        for (size_t k = 0; first && k < op->lock_count && k < first->lock_count; k++)
            if (op->tokens[k] && first->tokens[k] && op->tokens[k] != first->tokens[k])
                violation(report, "S3",
                          "%s: one lease has token %lld (line %zu) and %lld (line"
                          " %zu)",
                          lease->id, (long long)first->tokens[k], first->line,
                          (long long)op->tokens[k], op->line);
        if (!first)
            first = op;
    }
}

static void check_spent(struct report *report, const struct lease *lease)
{
    int64_t window = report->history->retry_window_ms * NS_PER_MS;

    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *over = lease->ops.at[i];
        bool is_over = over->outcome == OUTCOME_ENDED ||
                       (over->verb == OP_RELEASE && over->outcome == OUTCOME_OK);
        for (size_t k = 0; is_over && k < lease->ops.count; k++) {
            const struct op *op = lease->ops.at[k];
            if (is_granted(op) && op->t_inv > over->t_ret && op->t_ret < over->t_inv + window &&
                !history_lost_data(report->history, lease->asked_from, op->t_ret))
                violation(report, "S3",
                          "%s: the lease was over (line %zu) and holds again"
                          " (line %zu)",
                          lease->id, over->line, op->line);
        }
    }
}

/* An answer may only say that a lease is over when its time is, or a request ended it. In a
 * quorum also when a server that had it was restarted: a lease that a bare majority had is lost
 * then, but keeps others away until its time is over. */
static void check_lost_early(struct report *report, const struct lease *lease)
{
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (op->outcome != OUTCOME_ENDED || op->t_inv < lease->told_from ||
            op->t_ret >= lease->told_to)
            continue;
        if (history_restarted(report->history, lease->asked_from, op->t_ret))
            continue;
        if (history_lost_data(report->history, lease->asked_from, op->t_ret))
            report->excused++;
        else
            violation(report, "S2",
                      "%s: held until %lld ms by line %zu, but over at %lld ms"
                      " (line %zu, %s)",
                      lease->id, MS(lease->told_to), lease->last_telling->line, MS(op->t_ret),
                      op->line, op->reason ? op->reason : "no reason");
    }
}

/* Whether the release is the first request that may have ended a lease, and no other request
 * for the lease is under way. The place of a fair waiter may be given up whenever it is there.
 */
static bool is_first_release(const struct lease *lease, size_t at)
{
    const struct op *release = lease->ops.at[at];

    if (release->verb != OP_RELEASE || release->outcome != OUTCOME_OK ||
        (lease->first->kind && strcmp(lease->first->kind, "fair") == 0))
        return false;
    for (size_t i = 0; i < at; i++) {
        const struct op *op = lease->ops.at[i];
        if (op->verb == OP_RELEASE || op->t_ret > release->t_inv)
            return false;
    }
    return true;
}

/* A lease whose time was certainly over is never renewed nor confirmed, and its release is no
 * success: a permit of such a lease would be handed over. In a quorum a server that has not
 * replied counts as one that held, so a release may be a success there. */
static void check_revived(struct report *report, const struct lease *lease)
{
    int64_t late = report->bounds.late_ms * NS_PER_MS, end = 0;

    if (lease->first->owner || lease->first->is_watchdog)
        return;
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (end && op->t_inv > end && is_first_release(lease, i) && !report->history->quorum &&
            !history_lost_data(report->history, lease->asked_from, op->t_ret))
            violation(report, "S5",
                      "%s: the lease was over at %lld ms, and is released (line %zu)",
                      lease->id, MS(end), op->line);
        if (op->verb != OP_ACQUIRE && op->verb != OP_RENEW)
            continue;
        if (end && is_granted(op) && op->t_inv > end &&
            !history_lost_data(report->history, lease->asked_from, op->t_ret))
            violation(report, "S5",
                      "%s: the lease was over at %lld ms, and holds at %lld ms"
                      " (line %zu)",
                      lease->id, MS(end), MS(op->t_ret), op->line);
        int64_t ttl = op->ttl_ms ? op->ttl_ms : report->history->watchdog_ms;
        int64_t to = op->t_ret + ttl * NS_PER_MS;
        if (op->outcome != OUTCOME_OK)
            to += late;
        if (is_granted(op) || end || op->outcome == OUTCOME_UNKNOWN ||
            op->outcome == OUTCOME_ABANDONED)
            end = to > end ? to : end;
    }
}

/* --- hold counts -----------------------------------------------------------------------------
 */

static const struct lock *lock_of(const struct report *report, const char *name)
{
    struct lock *lock;

    HASH_FIND_STR(report->history->locks, name, lock);
    return lock;
}

/* The most that the owner's leases can count when this request is answered. */
static int64_t most_holds(const struct lock *lock, const struct lease *lease,
                          const struct op *op)
{
    int64_t count = 1;

    if (!lease->first->owner)
        return 1;
    for (size_t i = 0; i < lock->leases.count; i++) {
        const struct lease *other = lock->leases.at[i];
        if (other != lease && is_same_group(other, lease) &&
            other->first->kind == lease->first->kind && other->asked_from < op->t_ret &&
            other->maybe_to > op->t_inv)
            count++;
    }
    return count;
}

static int64_t least_holds(const struct lock *lock, const struct lease *lease,
                           const struct op *op)
{
    int64_t count = 0;

    if (!lease->first->owner)
        return 1;
    for (size_t i = 0; i < lock->leases.count; i++) {
        const struct lease *other = lock->leases.at[i];
        if (other != lease && is_same_group(other, lease) &&
            other->first->kind == lease->first->kind && other->told_from < op->t_inv &&
            other->told_to > op->t_ret)
            count++;
    }
    return count + 1;
}

static void check_counts(struct report *report, const struct lease *lease)
{
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (op->verb != OP_ACQUIRE || op->outcome != OUTCOME_OK || op->hold_count < 0 ||
            lease->is_split)
            continue;
        const struct lock *lock = lock_of(report, lease->first->locks[0]);
        int64_t max = most_holds(lock, lease, op), min = least_holds(lock, lease, op);
        if (op->hold_count > max || op->hold_count < min) {
            if (history_lost_data(report->history, lease->asked_from - 30 * SECOND_NS,
                                  op->t_ret))
                report->excused++;
            else
                violation(report, "S3",
                          "%s: hold_count %lld, but %lld to %lld leases of the"
                          " owner hold (line %zu)",
                          lease->id, (long long)op->hold_count, (long long)min, (long long)max,
                          op->line);
        }
    }
}

/* --- S4
 * --------------------------------------------------------------------------------------- */

/* A request that waited while its session ended may have been granted before, but its answer
 * was then on its way: not for long without a fault. */
static bool is_granted_late(const struct report *report, const struct session *session,
                            const struct op *op)
{
    int64_t trouble = report->bounds.trouble_ms * NS_PER_MS;

    if (session->ended_at >= op->t_ret || op->verb != OP_ACQUIRE)
        return false;
    bool is_calm = !history_is_troubled(report->history, session->ended_at, op->t_ret, trouble);
    return op->t_ret - session->ended_at >
           (is_calm ? report->bounds.calm_ms * NS_PER_MS : trouble);
}

static void check_session(struct report *report, const struct lease *lease)
{
    const struct session *session = history_session(report->history, lease->first->session);

    if (!session)
        return;
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (is_granted(op) &&
            (op->t_inv > session->ended_at || is_granted_late(report, session, op)))
            violation(report, "S4",
                      "%s: granted or renewed (line %zu) for session %s, which had"
                      " ended at %lld ms",
                      lease->id, op->line, session->id, MS(session->ended_at));
        else if (is_granted(op) && session->maybe_to &&
                 op->t_inv > session->maybe_to + SECOND_NS &&
                 !history_lost_data(report->history, session->maybe_to, op->t_inv))
            violation(report, "S4",
                      "%s: granted or renewed (line %zu) for session %s, which was"
                      " over at %lld ms",
                      lease->id, op->line, session->id, MS(session->maybe_to));
    }
}

void check_leases(struct report *report)
{
    for (struct lease *lease = report->history->leases; lease; lease = lease->hh.next) {
        check_authority(report, lease);
        if (!lease->is_split)
            check_same_answers(report, lease);
        check_spent(report, lease);
        if (lease->told_from < lease->told_to && !lease->is_split)
            check_lost_early(report, lease);
        check_revived(report, lease);
        if (lease->first->lock_count)
            check_counts(report, lease);
        check_session(report, lease);
    }
}
