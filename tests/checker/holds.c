/* From when to when a lease holds for certain, and from when to when it may hold at all. Both
 * err on the side of the server: what is not certain is no violation. */
#include "tests/checker/check.h"

#include <string.h>

/* Redis keeps time in whole ms, of a clock that is slewed. */
#define SKEW_NS (4 * NS_PER_MS)
#define SECOND_NS (1000 * NS_PER_MS)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_told(const struct op *op)
{
    bool tells = op->verb == OP_ACQUIRE || op->verb == OP_RENEW ||
                 op->verb == OP_SESSION_OPEN || op->verb == OP_KEEP_ALIVE;

    return tells && op->outcome == OUTCOME_OK;
}

static bool may_have_run(const struct op *op)
{
    return op->outcome != OUTCOME_NOT_DONE;
}

static int64_t ttl_of(const struct history *history, const struct op *op)
{
    return (op->ttl_ms ? op->ttl_ms : history->watchdog_ms) * NS_PER_MS;
}

static int64_t told_end(const struct op *op, int64_t remaining_ms)
{
    return op->t_inv + remaining_ms * NS_PER_MS - SKEW_NS;
}

static void derive_session(const struct history *history, struct session *session,
                           const struct bounds *bounds)
{
    int64_t cut = FOR_EVER, ttl = 0;

    session->ended_at = session->released_at = FOR_EVER;
    for (size_t i = 0; i < session->ops.count; i++) {
        const struct op *op = session->ops.at[i];
        ttl = most(ttl, op->ttl_ms * NS_PER_MS);
        if (is_told(op))
            session->told_to = most(session->told_to, told_end(op, op->remaining_ms));
        if (op->verb == OP_SESSION_END && may_have_run(op))
            cut = least(cut, op->t_inv);
        bool says_ended = op->outcome == OUTCOME_ENDED ||
                          (op->verb == OP_SESSION_END && op->outcome == OUTCOME_OK);
        bool is_undone = history_is_undone(history, op->t_inv, op->t_ret);
        if (op->verb == OP_SESSION_END && op->outcome == OUTCOME_OK && !is_undone)
            session->released_at = least(session->released_at, op->t_ret);
        if (says_ended && !is_undone)
            session->ended_at = least(session->ended_at, op->t_ret);
        else if (op->verb != OP_SESSION_END && may_have_run(op))
            session->maybe_to = most(
                session->maybe_to,
                op->t_ret + ttl +
                    (op->outcome == OUTCOME_OK ? 0 : bounds->late_ms * NS_PER_MS));
    }
    session->told_to = least(session->told_to, cut);
    session->maybe_to = least(session->maybe_to, session->ended_at);
}

static void derive_told(struct lease *lease)
{
    int64_t cut = FOR_EVER;

    lease->told_from = lease->asked_from = FOR_EVER;
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (op->verb == OP_ACQUIRE)
            lease->asked_from = least(lease->asked_from, op->t_inv);
        if (is_told(op)) {
            int64_t end = told_end(op, op->remaining_ms);
            lease->told_from = least(lease->told_from, op->t_ret);
            lease->told_to = op->verb == OP_RENEW ? end : most(lease->told_to, end);
            lease->last_telling = op;
        } else if (op->verb == OP_RENEW && may_have_run(op) && op->ttl_ms) {
            lease->told_to = least(lease->told_to, told_end(op, op->ttl_ms));
        } else if (op->verb == OP_RELEASE && may_have_run(op)) {
            cut = least(cut, op->t_inv);
        }
    }
    lease->told_to = least(lease->told_to, cut);
}

/* A renewal since then, maybe for less time, takes the place of what a keep-alive said. */
static bool is_renewed_since(const struct lease *lease, int64_t t)
{
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (op->verb == OP_RENEW && may_have_run(op) && op->t_ret > t)
            return true;
    }
    return false;
}

static int64_t release_called(const struct lease *lease)
{
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (op->verb == OP_RELEASE && may_have_run(op))
            return op->t_inv;
    }
    return FOR_EVER;
}

static void add_listings(struct lease *lease)
{
    int64_t cut = release_called(lease);

    for (size_t i = 0; i < lease->listed.count; i++) {
        const struct op *op = lease->listed.at[i];
        for (size_t k = 0; k < op->listed_count; k++) {
            if (op->listed[k].lease != lease->id)
                continue;
            lease->told_from = least(lease->told_from, op->t_ret);
            if (is_renewed_since(lease, op->t_inv))
                continue;
            int64_t end = least(told_end(op, op->listed[k].remaining_ms), cut);
            if (end > lease->told_to)
                lease->last_telling = op;
            lease->told_to = most(lease->told_to, end);
        }
    }
}

static void cut_by_force(const struct history *history, struct lease *lease)
{
    for (size_t i = 0; i < lease->first->lock_count; i++) {
        struct lock *lock;
        HASH_FIND_STR(history->locks, lease->first->locks[i], lock);
        for (size_t k = 0; lock && k < lock->forces.count; k++) {
            const struct op *force = lock->forces.at[k];
            if (may_have_run(force) && force->t_ret + 10 * SECOND_NS > lease->asked_from)
                if (force->t_ret > lease->asked_from || force->outcome != OUTCOME_OK)
                    lease->told_to = least(lease->told_to, force->t_inv);
        }
    }
}

/* How long the place of a fair waiter stays when nobody asks for it any more. Where Redis was
 * away before the place was over, the place is not over until its time has passed once more. A
 * front end notices at most two seconds late that Redis is away; and one that starts anew knows
 * nothing of the time before, in which others may have held the lock, so that a place that is
 * over has stayed in the queue. */
static int64_t place_of(const struct history *history, const struct op *op)
{
    int64_t place = history->place_ms * NS_PER_MS, until = op->t_ret + place;
    bool is_later = true;

    while (is_later) {
        is_later = false;
        for (size_t i = 0; i < history->faults.count; i++) {
            const struct fault *fault = history->faults.at[i];
            int64_t spared = fault->t_end + place, behind = 2 * SECOND_NS;
            if (!fault->scope || strcmp(fault->scope, "redis") != 0)
                behind = history->max_ttl_ms * NS_PER_MS;
            if (fault->t_end > op->t_inv && fault->t_begin < until + behind && spared > until) {
                until = spared;
                is_later = true;
            }
        }
    }
    return until - op->t_ret + SECOND_NS;
}

/* Whether the lock was certainly held by another lease when the client hung up, and for a while
 * before and after: then no answer with a grant was on its way, and there is none to come. */
static bool was_taken(const struct history *history, const struct bounds *bounds,
                      const struct lease *lease, const struct op *op)
{
    int64_t calm = bounds->calm_ms * NS_PER_MS, from = most(op->t_inv, op->t_ret - calm);
    struct lock *lock;

    if (history_is_troubled(history, op->t_inv, op->t_ret + calm, calm) || !op->wait_ms)
        return false;
    HASH_FIND_STR(history->locks, op->locks[0], lock);
    for (size_t i = 0; lock && !lock->permits && i < lock->leases.count; i++) {
        const struct lease *other = lock->leases.at[i];
        bool is_reader = other->first->kind && strcmp(other->first->kind, "read") == 0;
        if (other != lease && !is_reader && other->told_from < from &&
            other->told_to > op->t_ret + calm / 5)
            return true;
    }
    return false;
}

/* From when and until when one request may have made the lease hold. */
static void add_possible(const struct history *history, const struct bounds *bounds,
                         struct lease *lease, const struct op *op, int64_t *place_to)
{
    int64_t late = bounds->late_ms * NS_PER_MS, ttl = ttl_of(history, op);
    bool is_fair = op->kind && strcmp(op->kind, "fair") == 0;
    int64_t place = is_fair ? place_of(history, op) : 0;
    int64_t from = op->t_inv, to;

    switch (op->outcome) {
    case OUTCOME_OK:
        if (op->wait_ms)
            from = op->t_ret;
        to = op->is_watchdog ? FOR_EVER : op->t_ret + ttl;
        break;
    case OUTCOME_UNKNOWN:
        to = op->is_watchdog ? FOR_EVER : op->t_ret + late + most(ttl, place) + SECOND_NS;
        break;
    case OUTCOME_ABANDONED:
        if (was_taken(history, bounds, lease, op)) {
            from = op->t_ret;
            to = op->t_ret + bounds->hang_up_ms * NS_PER_MS;
        } else if (history_is_troubled(history, op->t_inv, op->t_ret,
                                       bounds->trouble_ms * NS_PER_MS)) {
            to = op->is_watchdog ? FOR_EVER : op->t_ret + late + most(ttl, place) + SECOND_NS;
        } else {
            from = op->t_ret - bounds->calm_ms * NS_PER_MS;
            to = op->is_watchdog ? FOR_EVER : op->t_ret + SECOND_NS + most(ttl, place);
        }
        break;
    case OUTCOME_NOT_DONE:
        if (!is_fair || op->verb != OP_ACQUIRE)
            return;
        from = op->t_ret;
        to = 0;
        break;
    case OUTCOME_ENDED:
    default:
        return;
    }
    lease->maybe_from = least(lease->maybe_from, from);
    lease->maybe_to = most(lease->maybe_to, to);
    if (op->verb == OP_ACQUIRE && op->outcome != OUTCOME_OK)
        *place_to = most(*place_to, op->t_ret + place);
}

/* Whether an answer says that the lease holds nothing. That its session has ended does not say
 * that its place in a queue has gone. */
static bool is_over(const struct op *op, bool has_place)
{
    if (op->outcome == OUTCOME_ENDED)
        return !has_place || op->verb == OP_RELEASE;
    return op->verb == OP_RELEASE && op->outcome == OUTCOME_OK;
}

/* The locks of a set are found by its token. Where a master of a cluster loses their names, and
 * the set is at another master, an answer that nothing is known of the token ends nothing: the
 * set holds until its time is over. */
static bool has_lost_names(const struct history *history, const struct lease *lease,
                           const struct op *op)
{
    return history->masters > 1 && lease->first->lock_count > 1 && op->reason &&
           strcmp(op->reason, "unknown") == 0 &&
           history_lost_data(history, lease->asked_from, op->t_ret);
}

/* The end of its session ends a lease. But where a master of a cluster loses the index that has
 * the session, and the session is at another master, nobody visits the session before its next
 * keep-alive: if none comes, the leases end by their time. */
static void end_with_session(const struct history *history, const struct session *session,
                             struct lease *lease)
{
    const struct op *first = session->ops.at[0];
    int64_t end = session->maybe_to + SECOND_NS;

    if (history->masters > 1 && history_lost_data(history, first->t_inv, session->maybe_to))
        end = lease->maybe_to < FOR_EVER ? lease->maybe_to
                                         : end + history->watchdog_ms * NS_PER_MS;
    lease->maybe_to = least(lease->maybe_to, end);
}

static void derive_possible(const struct history *history, const struct bounds *bounds,
                            struct lease *lease)
{
    struct session *session = history_session(history, lease->first->session);
    int64_t place_to = 0;

    lease->maybe_from = FOR_EVER;
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (op->verb == OP_ACQUIRE || op->verb == OP_RENEW)
            add_possible(history, bounds, lease, op, &place_to);
    }
    if (session)
        end_with_session(history, session, lease);
    /* A place in a queue outlives its request, and its session too. */
    lease->maybe_to = most(lease->maybe_to, place_to);
    lease->expires = true;
    if (session && place_to == 0 && session->released_at < lease->maybe_to) {
        lease->maybe_to = session->released_at;
        lease->expires = false;
    }
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (is_over(op, place_to > 0) && op->t_ret < lease->maybe_to &&
            !has_lost_names(history, lease, op) &&
            !history_is_undone(history, op->t_inv, op->t_ret)) {
            lease->maybe_to = op->t_ret;
            lease->expires = op->outcome == OUTCOME_ENDED;
        }
    }
}

static void find_split(const struct history *history, struct lease *lease)
{
    const struct op *first = NULL;

    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        if (op->verb != OP_ACQUIRE || op->outcome != OUTCOME_OK)
            continue;
        if (!first)
            first = op;
        lease->is_split |= history_lost_data(history, first->t_inv, op->t_ret);
    }
}

void derive_holds(struct history *history, const struct bounds *bounds)
{
    for (struct session *session = history->sessions; session; session = session->hh.next)
        derive_session(history, session, bounds);
    for (struct lease *lease = history->leases; lease; lease = lease->hh.next) {
        struct session *session = history_session(history, lease->first->session);
        derive_told(lease);
        add_listings(lease);
        cut_by_force(history, lease);
        if (session)
            lease->told_to = least(lease->told_to, session->told_to);
        find_split(history, lease);
    }
    for (struct lease *lease = history->leases; lease; lease = lease->hh.next)
        derive_possible(history, bounds, lease);
}

bool is_same_group(const struct lease *a, const struct lease *b)
{
    const struct op *left = a->first, *right = b->first;

    if (a == b)
        return true;
    return left->owner && left->owner == right->owner && left->session == right->session;
}
