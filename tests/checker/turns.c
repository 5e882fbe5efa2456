/* L7: each contender of a lock that nobody holds for long gets its turn, whether it waits at a
 * front end, polls, or is a client of Redisson. L8: a request for what nobody else wants is
 * answered soon, also at a front end that strangers flood with requests. */
#include "tests/checker/check.h"

#include <stdlib.h>
#include <string.h>

#define MS(ns) ((long long)((ns) / NS_PER_MS))

/* The faults that excuse nothing here. */
#define FLOOD "flood of strangers"

static int compare_contenders(const void *a, const void *b)
{
    const struct op *left = *(struct op *const *)a, *right = *(struct op *const *)b;

    if (left->client != right->client)
        return strcmp(left->client, right->client);
    return left->t_inv < right->t_inv ? -1 : left->t_inv > right->t_inv;
}

/* True: the turn took too long, and that was reported. */
static bool judge_turn(struct report *report, const struct op *first, const struct op *last)
{
    const struct history *history = report->history;
    bool is_late = last->t_ret - first->t_inv > report->bounds.turn_ms * NS_PER_MS &&
                   !history_is_troubled(history, first->t_inv, last->t_ret,
                                        report->bounds.trouble_ms * NS_PER_MS);

    if (is_late)
        violation(report, "L7", "%s: %s had no turn for %lld ms (lines %zu to %zu)",
                  first->locks[0], first->client, MS(last->t_ret - first->t_inv), first->line,
                  last->line);
    return is_late;
}

/* From the first request of a contender that is refused to the grant is one turn. */
static void check_contenders(struct report *report, struct op *const *ops, size_t count)
{
    const struct op *first = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct op *op = ops[i];
        if (i > 0 && op->client != ops[i - 1]->client)
            first = NULL;
        if (!first)
            first = op;
        bool is_late = judge_turn(report, first, op);
        if (is_late || op->status != 423) /* granted, or no contender */
            first = NULL;
    }
}

static bool is_disturbed(const struct report *report, const struct op *op)
{
    int64_t after = report->bounds.trouble_ms * NS_PER_MS;

    for (size_t i = 0; i < report->history->faults.count; i++) {
        const struct fault *fault = report->history->faults.at[i];
        if (!strstr(fault->kind, FLOOD) && fault->t_begin < op->t_ret &&
            fault->t_end + after > op->t_inv)
            return true;
    }
    return false;
}

static void check_bystander(struct report *report, const struct op *op)
{
    if (op->t_ret - op->t_inv > report->bounds.bystander_ms * NS_PER_MS &&
        !is_disturbed(report, op))
        violation(report, "L8", "%s: front end %lld answered after %lld ms (line %zu)",
                  op->client, (long long)op->front, MS(op->t_ret - op->t_inv), op->line);
}

void check_turns(struct report *report)
{
    const struct list *ops = &report->history->ops;
    struct op **contenders = calloc(ops->count + 1, sizeof *contenders);
    size_t count = 0;

    if (!contenders)
        abort();
    for (size_t i = 0; i < ops->count; i++) {
        struct op *op = ops->at[i];
        if (op->is_bystander)
            check_bystander(report, op);
        if (op->contends && op->verb == OP_ACQUIRE)
            contenders[count++] = op;
    }
    qsort(contenders, count, sizeof *contenders, compare_contenders);
    check_contenders(report, contenders, count);
    free(contenders);
}
