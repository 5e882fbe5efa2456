/* The count of broken rules, and the order in which the rules are checked. */
#include "tests/checker/check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* More of one rule are counted and not printed. */
#define PRINTED_MAX 20

void report_init(struct report *report, const struct history *history, FILE *out)
{
    *report = (struct report){.out = out, .history = history};
    report->bounds = (struct bounds){.calm_ms = 250,
                                     .expiry_ms = 1000,
                                     .trouble_ms = 3000,
                                     .answer_ms = 4500,
                                     .calm_answer_ms = 1500,
                                     .deadlock_ms = 6000,
                                     .hang_up_ms = 300,
                                     .late_ms = 10000,
                                     .sweep_ms = 2000,
                                     .turn_ms = 2500,
                                     .bystander_ms = 500};
}

void report_release(struct report *report)
{
    for (size_t i = 0; i < report->rules.count; i++)
        free(report->rules.at[i]);
    free(report->rules.at);
}

static struct rule_count *count_of(struct report *report, const char *rule)
{
    struct rule_count *count;

    for (size_t i = 0; i < report->rules.count; i++) {
        count = report->rules.at[i];
        if (strcmp(count->rule, rule) == 0)
            return count;
    }
    count = calloc(1, sizeof *count);
    if (!count)
        abort();
    count->rule = rule;
    list_add(&report->rules, count);
    return count;
}

void violation(struct report *report, const char *rule, const char *format, ...)
{
    struct rule_count *count = count_of(report, rule);
    va_list arguments;

    if (++count->broken > PRINTED_MAX)
        return;
    fprintf(report->out, "%-7s ", rule);
    va_start(arguments, format);
    vfprintf(report->out, format, arguments);
    va_end(arguments);
    fputc('\n', report->out);
}

int64_t report_broken(const struct report *report, const char *rule)
{
    for (size_t i = 0; i < report->rules.count; i++) {
        const struct rule_count *count = report->rules.at[i];
        if (strcmp(count->rule, rule) == 0)
            return count->broken;
    }
    return 0;
}

int64_t report_all_broken(const struct report *report)
{
    int64_t sum = 0;

    for (size_t i = 0; i < report->rules.count; i++)
        sum += ((struct rule_count *)report->rules.at[i])->broken;
    return sum;
}

void check_all(struct report *report, struct history *history)
{
    derive_holds(history, &report->bounds);
    check_tokens(report);
    check_overlaps(report);
    check_leases(report);
    check_wakeups(report);
    check_answers(report);
    check_queues(report);
    check_deadlocks(report);
    check_told(report);
    check_looks(report);
    check_turns(report);
    check_ends(report);
    check_coverage(report);
}
