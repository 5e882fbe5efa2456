/* The rules about fencing tokens, holders at a time and permits. */
#include "tests/checker/check.h"

#include <stdlib.h>
#include <string.h>

#define MS(ns) ((long long)((ns) / NS_PER_MS))

static bool is_reader(const struct lease *lease)
{
    return lease->first->kind && strcmp(lease->first->kind, "read") == 0;
}

/* --- S1: a later grant has a higher fencing token ------------------------------------------
 */

/* The grant of a lease happened between `from` and `to`. */
struct grant {
    int64_t from, to, token;
    const struct lease *lease;
};

static int64_t token_of(const struct lease *lease, const char *lock)
{
    for (size_t i = 0; i < lease->ops.count; i++) {
        const struct op *op = lease->ops.at[i];
        for (size_t k = 0; op->outcome == OUTCOME_OK && k < op->lock_count; k++)
            if (op->locks[k] == lock && op->tokens[k])
                return op->tokens[k];
    }
    return 0;
}

static int compare_from(const void *a, const void *b)
{
    const struct grant *left = a, *right = b;

    return left->from < right->from ? -1 : left->from > right->from;
}

static int compare_to(const void *a, const void *b)
{
    const struct grant *left = *(struct grant *const *)a, *right = *(struct grant *const *)b;

    return left->to < right->to ? -1 : left->to > right->to;
}

static int compare_token(const void *a, const void *b)
{
    const struct grant *left = *(struct grant *const *)a, *right = *(struct grant *const *)b;

    return left->token < right->token ? -1 : left->token > right->token;
}

/* Whether the lease shares the token of `other`, a lease of the same owner. A lease whose
 * answer was lost may have any token, so long as it possibly holds. */
static bool may_share(const struct lock *lock, const struct lease *lease,
                      const struct lease *other, int64_t token)
{
    int64_t others = token_of(other, lock->name);

    if (others)
        return others == token;
    return other->maybe_from <= lease->told_from && other->maybe_to >= lease->asked_from;
}

/* Leases of an owner share the token of the first of them, and its grant. */
static int64_t granted_from(const struct lock *lock, const struct lease *lease, int64_t token)
{
    int64_t from = lease->asked_from;

    for (size_t i = 0; lease->first->owner && i < lock->leases.count; i++) {
        const struct lease *other = lock->leases.at[i];
        if (other->asked_from < from && is_same_group(other, lease) &&
            may_share(lock, lease, other, token))
            from = other->asked_from;
    }
    return from;
}

static size_t collect_grants(const struct lock *lock, struct grant *grants)
{
    size_t count = 0;

    for (size_t i = 0; i < lock->leases.count; i++) {
        const struct lease *lease = lock->leases.at[i];
        int64_t token = token_of(lease, lock->name);
        if (!token || lease->is_split || lease->told_from == FOR_EVER)
            continue;
        grants[count++] = (struct grant){granted_from(lock, lease, token), lease->told_from,
                                         token, lease};
    }
    return count;
}

static void check_order(struct report *report, const struct lock *lock, struct grant *grants,
                        struct grant **ended, size_t count)
{
    const struct grant *highest = NULL;
    size_t next = 0;

    for (size_t i = 0; i < count; i++)
        ended[i] = &grants[i];
    qsort(ended, count, sizeof *ended, compare_to);
    for (size_t i = 0; i < count; i++) {
        const struct grant *grant = &grants[i];
        for (; next < count && ended[next]->to < grant->from; next++)
            if (!highest || ended[next]->token > highest->token)
                highest = ended[next];
        if (!highest || grant->token > highest->token)
            continue;
        if (grant->token == highest->token && is_same_group(grant->lease, highest->lease))
            continue;
        violation(report, "S1",
                  "%s: lease %s (line %zu) has token %lld, lease %s before it"
                  " (line %zu) has %lld",
                  lock->name, grant->lease->id, grant->lease->first->line,
                  (long long)grant->token, highest->lease->id, highest->lease->first->line,
                  (long long)highest->token);
    }
}

static void check_unique(struct report *report, const struct lock *lock, struct grant *grants,
                         struct grant **sorted, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sorted[i] = &grants[i];
    qsort(sorted, count, sizeof *sorted, compare_token);
    for (size_t i = 1; i < count; i++) {
        const struct lease *a = sorted[i - 1]->lease, *b = sorted[i]->lease;
        if (sorted[i - 1]->token == sorted[i]->token && !is_same_group(a, b))
            violation(report, "S1",
                      "%s: leases %s (line %zu) and %s (line %zu) share token"
                      " %lld",
                      lock->name, a->id, a->first->line, b->id, b->first->line,
                      (long long)sorted[i]->token);
    }
}

static void check_writes(struct report *report, const struct lock *lock)
{
    int64_t highest = 0;

    for (size_t i = 0; i < lock->writes.count; i++) {
        const struct resource_write *write = lock->writes.at[i];
        const struct lease *lease = history_lease(report->history, write->lease);
        if (write->is_accepted) {
            if (write->token < highest)
                violation(report, "S1",
                          "%s: the resource took token %lld after %lld (line %zu)", lock->name,
                          (long long)write->token, (long long)highest, write->line);
            highest = write->token;
        } else if (lease && !is_reader(lease) && write->t > lease->told_from &&
                   write->t < lease->told_to) {
            if (history_lost_data(report->history, lease->asked_from, write->t))
                report->excused++;
            else
                violation(report, "S1",
                          "%s: the resource refused lease %s, which holds, for a"
                          " higher token (line %zu)",
                          lock->name, lease->id, write->line);
        }
    }
}

void check_tokens(struct report *report)
{
    for (struct lock *lock = report->history->locks; lock; lock = lock->hh.next) {
        struct grant *grants = calloc(lock->leases.count + 1, sizeof *grants);
        struct grant **sorted = calloc(lock->leases.count + 1, sizeof *sorted);
        if (!grants || !sorted)
            abort();
        size_t count = collect_grants(lock, grants);
        qsort(grants, count, sizeof *grants, compare_from);
        check_order(report, lock, grants, sorted, count);
        check_unique(report, lock, grants, sorted, count);
        check_writes(report, lock);
        free(grants);
        free(sorted);
    }
}

/* --- S2, S5: certain holds do not overlap ---------------------------------------------------
 */

static int compare_told(const void *a, const void *b)
{
    const struct lease *left = *(struct lease *const *)a, *right = *(struct lease *const *)b;

    return left->told_from < right->told_from ? -1 : left->told_from > right->told_from;
}

static void report_overlap(struct report *report, const struct lock *lock,
                           const struct lease *first, const struct lease *second)
{
    int64_t to = first->told_to < second->told_to ? first->told_to : second->told_to;
    const struct op *telling = first->last_telling;
    bool is_renewal = telling->verb == OP_RENEW && telling->t_ret > second->asked_from;

    if (history_lost_data(report->history, first->asked_from, second->told_from)) {
        report->excused++;
        return;
    }
    violation(report, is_renewal ? "S5" : "S2",
              "%s: lease %s (line %zu, held until %lld ms by line %zu) and lease %s (line %zu)"
              " both hold from %lld ms on, for %lld ms",
              lock->name, first->id, first->first->line, MS(first->told_to), telling->line,
              second->id, second->first->line, MS(second->told_from),
              MS(to - second->told_from));
}

static void check_sharing(struct report *report, const struct lock *lock,
                          struct lease *const *holds, size_t count)
{
    size_t first = 0;
    int64_t reach = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t now = holds[i]->told_from, together = 1;
        if (reach <= now)
            first = i;
        for (size_t k = first; k < i; k++) {
            const struct lease *other = holds[k];
            if (other->told_to <= now)
                continue;
            if (lock->permits) {
                together++;
            } else if (!is_same_group(other, holds[i]) &&
                       !(is_reader(other) && is_reader(holds[i]))) {
                report_overlap(report, lock, other, holds[i]);
            }
        }
        if (lock->permits && together > lock->permits) {
            if (history_lost_data(report->history, holds[first]->asked_from, now))
                report->excused++;
            else
                violation(report, "S2",
                          "%s: %lld leases hold %lld permits at %lld ms (line"
                          " %zu)",
                          lock->name, (long long)together, (long long)lock->permits, MS(now),
                          holds[i]->first->line);
        }
        if (holds[i]->told_to > reach)
            reach = holds[i]->told_to;
    }
}

void check_overlaps(struct report *report)
{
    for (struct lock *lock = report->history->locks; lock; lock = lock->hh.next) {
        struct lease **holds = calloc(lock->leases.count + 1, sizeof *holds);
        size_t count = 0;
        if (!holds)
            abort();
        for (size_t i = 0; i < lock->leases.count; i++) {
            struct lease *lease = lock->leases.at[i];
            if (lease->told_from < lease->told_to && !lease->is_split)
                holds[count++] = lease;
        }
        qsort(holds, count, sizeof *holds, compare_told);
        check_sharing(report, lock, holds, count);
        free(holds);
    }
}
