/* checker HISTORY.jsonl [--BOUND=N]...: holds a recorded run to the rules. Exit status 0: kept;
 * 1: broken, each violation is a line; 2: no history. */
#include "tests/checker/check.h"

#include <getopt.h>
#include <stdlib.h>

/* The order of these is that of bound_at(). */
static const struct option options[] = {
    {"calm-ms", required_argument, NULL, 0},
    {"trouble-ms", required_argument, NULL, 1},
    {"answer-ms", required_argument, NULL, 2},
    {"calm-answer-ms", required_argument, NULL, 3},
    {"hang-up-ms", required_argument, NULL, 4},
    {"late-ms", required_argument, NULL, 5},
    {"sweep-ms", required_argument, NULL, 6},
    {"min-requests", required_argument, NULL, 7},
    {"min-grants", required_argument, NULL, 8},
    {"min-waits", required_argument, NULL, 9},
    {"min-releases", required_argument, NULL, 10},
    {"min-renewals", required_argument, NULL, 11},
    {"min-expiries", required_argument, NULL, 12},
    {"min-shared", required_argument, NULL, 13},
    {"min-reentrant", required_argument, NULL, 14},
    {"min-abandoned", required_argument, NULL, 15},
    {"min-repeats", required_argument, NULL, 16},
    {"min-sweeps", required_argument, NULL, 17},
    {"expiry-ms", required_argument, NULL, 18},
    {"deadlock-ms", required_argument, NULL, 19},
    {"turn-ms", required_argument, NULL, 20},
    {"bystander-ms", required_argument, NULL, 21},
    {NULL, 0, NULL, 0},
};

static int64_t *bound_at(struct bounds *bounds, int index)
{
    int64_t *const all[] = {
        &bounds->calm_ms,        &bounds->trouble_ms,   &bounds->answer_ms,
        &bounds->calm_answer_ms, &bounds->hang_up_ms,   &bounds->late_ms,
        &bounds->sweep_ms,       &bounds->min_requests, &bounds->min_grants,
        &bounds->min_waits,      &bounds->min_releases, &bounds->min_renewals,
        &bounds->min_expiries,   &bounds->min_shared,   &bounds->min_reentrant,
        &bounds->min_abandoned,  &bounds->min_repeats,  &bounds->min_sweeps,
        &bounds->expiry_ms,      &bounds->deadlock_ms,  &bounds->turn_ms,
        &bounds->bystander_ms,
    };

    return all[index];
}

static bool read_bounds(struct bounds *bounds, int argc, char **argv)
{
    int index;

    while ((index = getopt_long(argc, argv, "", options, NULL)) != -1) {
        char *end;
        if (index == '?')
            return false;
        *bound_at(bounds, index) = strtoll(optarg, &end, 10);
        if (*end || end == optarg)
            return false;
    }
    return optind == argc - 1;
}

static void sum_up(const struct report *report)
{
    printf("longest time that a lock was free while a request waited: %lld ms calm, %lld ms"
           " beyond faults\n",
           (long long)report->longest_calm_free_ms, (long long)report->longest_free_ms);
    printf("excused by a declared loss of data: %lld\n", (long long)report->excused);
    for (size_t i = 0; i < report->rules.count; i++) {
        const struct rule_count *count = report->rules.at[i];
        printf("broken: %s %lld\n", count->rule, (long long)count->broken);
    }
    printf("checker: %s\n", report->rules.count ? "VIOLATIONS" : "clean");
}

int main(int argc, char **argv)
{
    struct history history = {0};
    struct report report;
    char why[80];
    FILE *file = NULL;

    report_init(&report, &history, stdout);
    if (!read_bounds(&report.bounds, argc, argv) || !(file = fopen(argv[optind], "r"))) {
        fprintf(stderr, "usage: checker HISTORY.jsonl [--BOUND=N]...\n");
        return 2;
    }
    bool is_history = history_read(&history, file, why, sizeof why);
    fclose(file);
    if (is_history) {
        check_all(&report, &history);
        sum_up(&report);
    } else {
        fprintf(stderr, "checker: %s: %s\n", argv[optind], why);
    }
    int status = !is_history ? 2 : report_all_broken(&report) ? 1 : 0;
    report_release(&report);
    history_free(&history);
    return status;
}
