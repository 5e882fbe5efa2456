/* T1: a session is told of each lease that it lost, once. S7: as long as a session lives, the
 * watchdog lets none of its leases end. A keep-alive may be answered while a lease changes, so
 * nothing is judged that happened between its request and its answer. */
#include "tests/checker/check.h"

#include <string.h>

#define MS(ns) ((long long)((ns) / NS_PER_MS))
#define SECOND_NS (1000 * NS_PER_MS)

/* A front end that dies in a visit keeps others from the session for so long. */
#define CLAIM_NS (5 * SECOND_NS)

static bool is_calm(const struct report *report, int64_t from, int64_t to)
{
    return !history_is_beyond_minority(report->history, from, to,
                                       report->bounds.trouble_ms * NS_PER_MS);
}

static const struct loss *find_loss(const struct op *keep_alive, const struct lease *lease)
{
    for (size_t i = 0; i < keep_alive->lost_count; i++)
        if (keep_alive->lost[i].lease == lease->id)
            return &keep_alive->lost[i];
    return NULL;
}

static bool is_listed(const struct op *keep_alive, const struct lease *lease)
{
    for (size_t i = 0; i < keep_alive->listed_count; i++)
        if (keep_alive->listed[i].lease == lease->id)
            return true;
    return false;
}

/* Whether the client released the lease, or was told that it is over, before that moment. */
static bool is_settled(const struct lease *lease, int64_t t)
{
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (op->t_inv < t && (op->verb == OP_RELEASE || op->outcome == OUTCOME_ENDED))
            return true;
    }
    return false;
}

/* --- T1
 * --------------------------------------------------------------------------------------- */

/* Since when answers list the lease no more, and do not name it as lost; FOR_EVER: they do, or
 * may have: no answer came. */
static int64_t silent_since(const struct session *session, size_t at, const struct lease *lease)
{
    int64_t since = FOR_EVER;

    for (size_t i = 0; i <= at; i++) {
        const struct op *op = session->ops.at[i];
        if (op->verb != OP_KEEP_ALIVE)
            continue;
        if (op->outcome != OUTCOME_OK || find_loss(op, lease))
            return FOR_EVER;
        if (is_listed(op, lease))
            since = FOR_EVER;
        else if (since == FOR_EVER && op->is_whole && op->t_inv > lease->told_from)
            since = op->t_ret;
    }
    return since;
}

/* That Redis lost a lease, with all that is known of it, is noticed by the watchdog's visit. */
static void check_silence(struct report *report, const struct session *session, size_t at)
{
    const struct op *op = session->ops.at[at];
    int64_t late = (report->history->watchdog_ms / 2 + report->bounds.calm_ms) * NS_PER_MS;

    for (size_t i = 0; op->is_whole && i < session->leases.count; i++) {
        const struct lease *lease = session->leases.at[i];
        int64_t since = silent_since(session, at, lease);
        if (since < FOR_EVER && op->t_inv > since + late && !is_settled(lease, op->t_ret) &&
            is_calm(report, lease->asked_from, op->t_ret))
            violation(report, "T1",
                      "session %s: lease %s (line %zu) is neither held nor lost (line %zu)",
                      session->id, lease->id, lease->first->line, op->line);
    }
}

static void check_repeats(struct report *report, const struct session *session, size_t at,
                          const struct loss *loss)
{
    const struct op *op = session->ops.at[at];
    int64_t under_way = report->bounds.calm_ms * NS_PER_MS;

    for (size_t i = 0; i < at; i++) {
        const struct op *before = session->ops.at[i];
        for (size_t k = 0; k < before->lost_count; k++)
            if (before->lost[k].lease == loss->lease && before->t_ret + under_way < op->t_inv &&
                is_calm(report, before->t_inv, op->t_ret))
                violation(report, "T1",
                          "session %s: that lease %s is lost is told again (lines %zu and %zu)",
                          session->id, loss->lease, before->line, op->line);
    }
}

static void check_losses(struct report *report, const struct session *session, size_t at)
{
    const struct op *op = session->ops.at[at];

    for (size_t i = 0; i < op->lost_count; i++) {
        const struct loss *loss = &op->lost[i];
        const struct lease *lease = loss->lease ? history_lease(report->history, loss->lease)
                                                : NULL;
        check_repeats(report, session, at, loss);
        if (lease && lease->told_from < op->t_inv && lease->told_to > op->t_ret &&
            is_calm(report, lease->asked_from, op->t_ret))
            violation(
                report, "T1",
                "session %s: lease %s is told as lost, and holds until %lld ms (line %zu)",
                session->id, lease->id, MS(lease->told_to), op->line);
    }
}

/* --- S7
 * --------------------------------------------------------------------------------------- */

/* Whether the watchdog keeps the lease from its first request on. */
static bool is_watched(const struct lease *lease)
{
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if ((op->verb == OP_ACQUIRE && !op->is_watchdog) ||
            (op->verb == OP_RENEW && op->ttl_ms > 0))
            return false;
    }
    return true;
}

static bool was_forced(const struct history *history, const struct lease *lease, int64_t t)
{
    for (size_t i = 0; i < lease->first->lock_count; i++) {
        struct lock *lock;
        HASH_FIND_STR(history->locks, lease->first->locks[i], lock);
        for (size_t k = 0; lock && k < lock->forces.count; k++) {
            const struct op *force = lock->forces.at[k];
            if (force->t_inv < t && force->t_ret > lease->asked_from)
                return true;
        }
    }
    return false;
}

/* An answer says that the lease has ended by its time, or has vanished. */
static void check_lapse(struct report *report, const struct lease *lease, const struct op *op,
                        const char *reason)
{
    int64_t back = 2 * report->history->watchdog_ms * NS_PER_MS + CLAIM_NS;
    int64_t from = op->t_inv - back > lease->asked_from ? op->t_inv - back : lease->asked_from;

    if (!reason || (strcmp(reason, "expired") != 0 && strcmp(reason, "unknown") != 0))
        return;
    if (lease->told_from < op->t_inv && is_watched(lease) && is_calm(report, from, op->t_ret) &&
        !was_forced(report->history, lease, op->t_ret))
        violation(
            report, "S7",
            "%s: its session lives, and the watchdog has let the lease end (line %zu, %s)",
            lease->id, op->line, reason);
}

static void check_watch(struct report *report, const struct session *session)
{
    for (size_t i = 0; i < session->leases.count; i++) {
        const struct lease *lease = session->leases.at[i];
        for (size_t k = 0; k < lease->ops.count; k++) {
            const struct op *op = lease->ops.at[k];
            if (op->outcome == OUTCOME_ENDED && op->t_ret < session->told_to &&
                !is_settled(lease, op->t_inv))
                check_lapse(report, lease, op, op->reason);
        }
    }
}

void check_told(struct report *report)
{
    const struct history *history = report->history;

    for (struct session *session = history->sessions; session; session = session->hh.next) {
        for (size_t i = 0; i < session->ops.count; i++) {
            const struct op *op = session->ops.at[i];
            if (op->verb != OP_KEEP_ALIVE || op->outcome != OUTCOME_OK)
                continue;
            check_silence(report, session, i);
            check_losses(report, session, i);
            for (size_t k = 0; k < op->lost_count; k++) {
                const struct lease *lease = op->lost[k].lease
                                                ? history_lease(history, op->lost[k].lease)
                                                : NULL;
                if (lease)
                    check_lapse(report, lease, op, op->lost[k].reason);
            }
        }
        check_watch(report, session);
    }
}
