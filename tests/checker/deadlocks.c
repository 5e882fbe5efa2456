/* L6: sessions that refuse do not wait for each other for long. A cycle lasts while each of its
 * waits goes on and each of its locks is certainly held; all its sessions were opened with
 * on_deadlock=refuse. Only a cycle whose sessions wait for single locks is looked for. */
#include "tests/checker/check.h"

#define MS(ns) ((long long)((ns) / NS_PER_MS))

enum { MEMBERS_MAX = 5 };

/* A path of waits, and the time during which all its links are there. */
struct path {
    const struct op *waits[MEMBERS_MAX];
    size_t count;
    int64_t from, to;
};

static bool is_wait(const struct op *op)
{
    return op->verb == OP_ACQUIRE && op->refuses && op->wait_ms > 0 && op->lock_count == 1 &&
           op->outcome != OUTCOME_ABANDONED && op->outcome != OUTCOME_UNKNOWN;
}

static bool is_same_node(const struct op *a, const struct op *b)
{
    return a->session == b->session && a->owner == b->owner;
}

static bool narrow(struct path *path, int64_t from, int64_t to)
{
    path->from = from > path->from ? from : path->from;
    path->to = to < path->to ? to : path->to;
    return path->to - path->from > 0;
}

static void close_path(struct report *report, const struct path *path)
{
    const struct history *history = report->history;
    int64_t most = report->bounds.deadlock_ms * NS_PER_MS;

    if (path->to - path->from <= most || path->waits[0]->t_inv > path->from ||
        history_is_troubled(history, path->from, path->to,
                            report->bounds.trouble_ms * NS_PER_MS))
        return;
    violation(report, "L6", "%s and %zu further waits in a circle for %lld ms (line %zu)",
              path->waits[0]->locks[0], path->count - 1, MS(path->to - path->from),
              path->waits[0]->line);
}

/* The sessions that hold what the last wait of the path is for, and their waits. */
static void follow(struct report *report, struct path path)
{
    const struct history *history = report->history;
    const struct op *last = path.waits[path.count - 1];
    const struct lease *lease;

    for (lease = history->leases; lease != NULL; lease = lease->hh.next) {
        const struct op *held = lease->first;
        struct path holding = path;
        if (!held->refuses || held->lock_count != 1 || held->locks[0] != last->locks[0] ||
            !narrow(&holding, lease->told_from, lease->told_to))
            continue;
        if (is_same_node(held, path.waits[0])) {
            if (path.count > 1)
                close_path(report, &holding);
            continue;
        }
        for (size_t i = 0; path.count < MEMBERS_MAX && i < history->ops.count; i++) {
            const struct op *op = history->ops.at[i];
            struct path longer = holding;
            if (!is_wait(op) || !is_same_node(op, held) ||
                !narrow(&longer, op->t_inv, op->t_ret))
                continue;
            longer.waits[longer.count++] = op;
            follow(report, longer);
        }
    }
}

void check_deadlocks(struct report *report)
{
    for (size_t i = 0; i < report->history->ops.count; i++) {
        const struct op *op = report->history->ops.at[i];
        struct path path = {.waits = {op}, .count = 1, .from = op->t_inv, .to = op->t_ret};
        /* The request that began last is looked at, so that a cycle is counted once. */
        if (is_wait(op) && path.to - path.from > report->bounds.deadlock_ms * NS_PER_MS)
            follow(report, path);
    }
}
