/* server/base/metrics.c: the page in the Prometheus text format. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/metrics.h"

#define MS 1000000LL

enum {
    SETS = 2,
    ROUTES = 2,
    /* Metrics of one name, told apart by a label. */
    CUT_OFF_REASONS = METRIC_CUT_OFF_FULL - METRIC_CUT_OFF_SILENT + 1,
    REDIRECTIONS = METRIC_REDIS_TRIED_AGAIN - METRIC_REDIS_MOVED + 1,
    LOCK_KINDS = METRIC_LOCKS_WRITE - METRIC_LOCKS + 1,
    MEMBER_STATES = METRIC_QUORUM_IN_QUARANTINE - METRIC_QUORUM_UP + 1
};

static const struct metrics_route routes[ROUTES] = {
    {"PUT", "/v1/locks/{name}"},
    {"GET", "/livez"},
};

static struct metrics sets[SETS];
static struct metrics *const all[SETS] = {&sets[0], &sets[1]};
static char *page;

static int set_up(void **state)
{
    (void)state;
    page = NULL;
    return metrics_init(&sets[0], ROUTES) || metrics_init(&sets[1], ROUTES);
}

static int tear_down(void **state)
{
    (void)state;
    free(page);
    for (size_t i = 0; i < SETS; i++)
        metrics_release(&sets[i]);
    return 0;
}

static void make_page(void)
{
    size_t len;

    free(page);
    page = metrics_page(all, SETS, routes, &len);
    assert_non_null(page);
    assert_int_equal(strlen(page), len);
}

/* The line that begins with `sample`; NULL: there is none. More than one fails. */
static const char *find_line(const char *sample)
{
    const char *found = NULL;
    size_t len = strlen(sample);

    for (const char *line = page; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, sample, len) != 0 || line[len] != ' ')
            continue;
        if (found != NULL)
            fail_msg("%s is there twice", sample);
        found = line + len + 1;
    }
    return found;
}

static double value_of(const char *sample)
{
    const char *found = find_line(sample);
    char *end;

    if (found == NULL)
        fail_msg("%s is not there", sample);
    double value = strtod(found, &end);
    assert_int_equal(*end, '\n');
    return value;
}

static void expect(const char *sample, double want)
{
    double value = value_of(sample);

    if (value < want - 1e-9 || value > want + 1e-9)
        fail_msg("%s is %.9f, not %.9f", sample, value, want);
}

/* Every sample stands under its own HELP and TYPE, each of which stands there once. */
static void page_has_its_format(void **state)
{
    char name[128] = "", type[32] = "", wanted[160];
    size_t families = 0;

    (void)state;
    metrics_request(&sets[0], 0, 201);
    make_page();
    assert_int_equal(page[strlen(page) - 1], '\n');
    for (char *line = page; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            assert_int_equal(sscanf(line, "# HELP %127[a-z_]", name), 1);
            assert_memory_equal(name, "rlockd_", 7);
            snprintf(wanted, sizeof(wanted), "\n# HELP %s ", name);
            assert_null(strstr(line, wanted));
            line = strchr(line, '\n') + 1;
            snprintf(wanted, sizeof(wanted), "# TYPE %s ", name);
            assert_memory_equal(line, wanted, strlen(wanted));
            assert_int_equal(sscanf(line + strlen(wanted), "%31[a-z]\n", type), 1);
            const char *total = strstr(name, "_total");
            assert_int_equal(strcmp(type, "counter") == 0, total != NULL && total[6] == '\0');
            families++;
            continue;
        }
        assert_memory_equal(line, name, strlen(name));
        assert_non_null(memchr(line, ' ', strcspn(line, "\n")));
    }
    assert_int_equal(families, 2 + METRIC_COUNT - (CUT_OFF_REASONS - 1) - (REDIRECTIONS - 1) -
                                   (LOCK_KINDS - 1) - (MEMBER_STATES - 1) + HISTOGRAM_COUNT);
}

static void values_of_all_sets_add_up(void **state)
{
    (void)state;
    metrics_add(&sets[0], METRIC_GRANTS, 3);
    metrics_add(&sets[0], METRIC_GRANTS, 1);
    metrics_add(&sets[1], METRIC_GRANTS, 38);
    metrics_add(&sets[0], METRIC_WAITERS, 5);
    metrics_add(&sets[1], METRIC_WAITERS, -2);
    metrics_set(&sets[0], METRIC_REDIS_UP, 1);
    metrics_set(&sets[1], METRIC_REDIS_UP, 1);
    metrics_set(&sets[1], METRIC_REDIS_UP, 0);
    make_page();
    expect("rlockd_grants_total", 42);
    expect("rlockd_waiters", 3);
    expect("rlockd_redis_up", 1);
    expect("rlockd_releases_total", 0);
}

static void requests_are_counted_by_route_and_status(void **state)
{
    (void)state;
    metrics_request(&sets[0], 0, 201);
    metrics_request(&sets[1], 0, 201);
    metrics_request(&sets[1], 0, 423);
    metrics_request(&sets[0], 1, 200);
    metrics_request(&sets[0], ROUTES, 404);
    metrics_request(&sets[0], ROUTES, 503);
    metrics_request(&sets[1], ROUTES, 418); /* none of ours */
    make_page();
    expect("rlockd_requests_total{method=\"PUT\",route=\"/v1/locks/{name}\",status=\"201\"}",
           2);
    expect("rlockd_requests_total{method=\"PUT\",route=\"/v1/locks/{name}\",status=\"423\"}",
           1);
    expect("rlockd_requests_total{method=\"GET\",route=\"/livez\",status=\"200\"}", 1);
    expect("rlockd_requests_total{method=\"\",route=\"\",status=\"404\"}", 1);
    expect("rlockd_requests_total{method=\"\",route=\"\",status=\"503\"}", 1);
    expect("rlockd_requests_total{method=\"\",route=\"\",status=\"other\"}", 1);
    /* What never happened takes no line. */
    assert_null(find_line("rlockd_requests_total{method=\"GET\",route=\"/livez\","
                          "status=\"404\"}"));
}

static void histogram_is_cumulative(void **state)
{
    static const struct {
        const char *bound;
        double count;
    } rows[] = {
        {"5e-05", 1},  {"0.0001", 2}, {"0.00025", 3}, {"0.0005", 3}, {"0.001", 5},
        {"0.0025", 6}, {"0.005", 6},  {"0.01", 6},    {"0.025", 6},  {"0.05", 6},
        {"0.1", 6},    {"0.25", 6},   {"0.5", 6},     {"1", 7},      {"2.5", 7},
        {"5", 7},      {"10", 7},     {"60", 8},      {"+Inf", 9},
    };
    char sample[128];

    (void)state;
    /* A bound belongs to its bucket. */
    metrics_observe(&sets[0], HISTOGRAM_WAIT, 50000);
    metrics_observe(&sets[1], HISTOGRAM_WAIT, 50001);
    metrics_observe(&sets[0], HISTOGRAM_WAIT, 250000);
    metrics_observe(&sets[0], HISTOGRAM_WAIT, 1 * MS);
    metrics_observe(&sets[1], HISTOGRAM_WAIT, 1 * MS);
    metrics_observe(&sets[1], HISTOGRAM_WAIT, 1 * MS + 1);
    metrics_observe(&sets[1], HISTOGRAM_WAIT, 1000 * MS);
    metrics_observe(&sets[0], HISTOGRAM_WAIT, 60000 * MS);
    metrics_observe(&sets[1], HISTOGRAM_WAIT, 60000 * MS + 1);
    make_page();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(sample, sizeof(sample), "rlockd_wait_duration_seconds_bucket{le=\"%s\"}",
                 rows[i].bound);
        expect(sample, rows[i].count);
    }
    expect("rlockd_wait_duration_seconds_count", 9);
    expect("rlockd_wait_duration_seconds_sum", 121.003350003);
    /* The others saw nothing. */
    expect("rlockd_unlock_to_grant_seconds_bucket{le=\"+Inf\"}", 0);
    expect("rlockd_unlock_to_grant_seconds_count", 0);
    expect("rlockd_unlock_to_grant_seconds_sum", 0);
}

static void bounds_rise_and_end_with_the_count(void **state)
{
    static const char bucket[] = "rlockd_request_duration_seconds_bucket{le=\"";
    double last_bound = 0, last_count = 0;
    size_t buckets = 0;

    (void)state;
    for (int64_t ns = 1; ns < 1000000 * MS; ns = ns * 3 + 1)
        metrics_observe(&sets[ns % SETS], HISTOGRAM_REQUEST, ns);
    make_page();
    for (const char *at = page; (at = strstr(at, bucket)) != NULL; buckets++) {
        char *end;
        at += strlen(bucket);
        double bound = strtod(at, &end); /* reads +Inf, too */
        assert_true(bound > last_bound);
        assert_memory_equal(end, "\"} ", 3);
        double count = strtod(end + 3, NULL);
        assert_true(count >= last_count);
        last_bound = bound;
        last_count = count;
    }
    assert_int_equal(buckets, HISTOGRAM_BUCKETS + 1);
    assert_true(last_bound > 1e300);
    assert_true(last_count > 20);
    expect("rlockd_request_duration_seconds_count", last_count);
}

/* --- by prefix ---------------------------------------------------------------------------- */

static void observe(size_t set, enum prefix_time time, const char *name)
{
    metrics_observe_name(&sets[set], time, name, 2000 * MS);
}

static void times_are_counted_by_the_longest_prefix(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETS; i++)
        assert_int_equal(metrics_set_prefixes(&sets[i], "deploy/, deploy/eu/,a\"b\\c"), 0);
    observe(0, PREFIX_HOLD, "deploy/us");
    observe(1, PREFIX_HOLD, "deploy/");
    observe(0, PREFIX_HOLD, "deploy/eu/1");
    observe(0, PREFIX_HOLD, "deploy");
    observe(1, PREFIX_HOLD, "a\"b\\c/1");
    observe(1, PREFIX_WAIT, "else");
    make_page();
    expect("rlockd_prefix_hold_duration_seconds_count{prefix=\"deploy/\"}", 2);
    expect("rlockd_prefix_hold_duration_seconds_sum{prefix=\"deploy/\"}", 4);
    expect("rlockd_prefix_hold_duration_seconds_bucket{prefix=\"deploy/\",le=\"1\"}", 0);
    expect("rlockd_prefix_hold_duration_seconds_bucket{prefix=\"deploy/\",le=\"2.5\"}", 2);
    expect("rlockd_prefix_hold_duration_seconds_bucket{prefix=\"deploy/\",le=\"+Inf\"}", 2);
    expect("rlockd_prefix_hold_duration_seconds_count{prefix=\"deploy/eu/\"}", 1);
    expect("rlockd_prefix_hold_duration_seconds_count{prefix=\"other\"}", 1);
    expect("rlockd_prefix_hold_duration_seconds_count{prefix=\"a\\\"b\\\\c\"}", 1);
    expect("rlockd_prefix_wait_duration_seconds_count{prefix=\"other\"}", 1);
    expect("rlockd_prefix_wait_duration_seconds_count{prefix=\"deploy/\"}", 0);
}

static void without_prefixes_there_are_no_series(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETS; i++)
        assert_int_equal(metrics_set_prefixes(&sets[i], ""), 0);
    observe(0, PREFIX_HOLD, "deploy/us");
    make_page();
    assert_null(strstr(page, "prefix"));
}

static void lists_of_prefixes(void **state)
{
    static const char *const bad[] = {
        "a,,b",
        "a,a",
        "other",
        ",a",
        "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21",
        "65_bytes_4567890123456789012345678901234567890123456789012345678_"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (prefix_times_are_valid(bad[i]))
            fail_msg("%s is valid", bad[i]);
    assert_true(prefix_times_are_valid(""));
    assert_true(prefix_times_are_valid("deploy/, migrate/"));
    assert_true(prefix_times_are_valid("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(page_has_its_format, set_up, tear_down),
        cmocka_unit_test_setup_teardown(values_of_all_sets_add_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(requests_are_counted_by_route_and_status, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(histogram_is_cumulative, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounds_rise_and_end_with_the_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(times_are_counted_by_the_longest_prefix, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_prefixes_there_are_no_series, set_up,
                                        tear_down),
        cmocka_unit_test(lists_of_prefixes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
