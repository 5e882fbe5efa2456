/* storage/store/marker.c: which markers tell of lost data. Redis and the time are made up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "storage/store/store_internal.h"
#include "storage/store/marker.h"
#include "storage/topology/topology.h"
#include "tests/lib/fake_loop.h"

static struct redis_server server = {.run_id = "one", .up_since_ns = 1};
static struct config config;
static struct metrics metrics;
static struct store store;
static int64_t elsewhere_ms;  /* that the refresh under way says; 0: nothing */
static redis_done *refreshed; /* of the refresh under way; NULL: none is */
static void *refreshed_arg;

struct topology_node *topology_next_node(struct topology *topology, struct topology_node *node)
{
    return node == NULL ? (struct topology_node *)topology : NULL;
}

struct topology_node *topology_node_of(struct topology *topology, const struct redis_tag *tag)
{
    (void)tag;
    return (struct topology_node *)topology;
}

const struct redis_server *topology_node_server(const struct topology_node *node)
{
    (void)node;
    return &server;
}

size_t topology_quorum_nodes(const struct topology *topology)
{
    (void)topology;
    return 0;
}

bool topology_node_is_up(const struct topology_node *node, const char **why_not)
{
    (void)node;
    (void)why_not;
    return true;
}

bool topology_node_takes_writes(const struct topology_node *node)
{
    (void)node;
    return true;
}

size_t topology_node_number(const struct topology_node *node)
{
    (void)node;
    return 0;
}

uint16_t topology_slot_at(const struct topology *topology, const struct topology_node *node)
{
    (void)topology;
    (void)node;
    return TOPOLOGY_ALL_SLOTS;
}

void topology_slot_tag(const struct topology *topology, uint16_t slot,
                       char tag[TOPOLOGY_TAG_SIZE])
{
    (void)topology;
    (void)slot;
    (void)tag;
}

void topology_node_check(struct topology_node *node, const char *reason)
{
    (void)node;
    function_called();
    assert_non_null(reason);
}

struct store_call *call_begin(struct store *asked, enum script script)
{
    assert_int_equal(script, SCRIPT_MARKER);
    elsewhere_ms = 0;
    return (struct store_call *)asked;
}

void call_fixed_key(struct store_call *call, size_t at, const char *key)
{
    (void)call;
    (void)at;
    (void)key;
}

void call_string(struct store_call *call, size_t at, const char *text)
{
    (void)call;
    (void)at;
    (void)text;
}

void call_number(struct store_call *call, size_t at, int64_t number)
{
    (void)call;
    if (at == MARKER_ARG_ELSEWHERE)
        elsewhere_ms = number;
}

void call_send_to(struct store_call *call, struct topology_node *node, redis_done *done,
                  void *arg)
{
    (void)call;
    (void)node;
    refreshed = done;
    refreshed_arg = arg;
}

/* --- what Redis says ---------------------------------------------------------------------- */

/* Time passes until the next refresh, and beyond it without an answer. */
static void pass(int64_t ms)
{
    loop.now_ns += ms * CLOCK_NS_PER_MS;
    timers_run(&loop.timers, loop.now_ns);
}

static void answer(const struct redis_result *result)
{
    redis_done *done = refreshed;

    assert_non_null(done);
    refreshed = NULL;
    done(refreshed_arg, result);
}

static void redis_says(int64_t since_ms, int64_t kept_ms, int64_t now_ms)
{
    redisReply numbers[] = {{.type = REDIS_REPLY_INTEGER, .integer = since_ms},
                            {.type = REDIS_REPLY_INTEGER, .integer = kept_ms},
                            {.type = REDIS_REPLY_INTEGER, .integer = now_ms},
                            {.type = REDIS_REPLY_STRING, .str = "", .len = 0}};
    redisReply *elements[] = {&numbers[0], &numbers[1], &numbers[2], &numbers[3]};
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 4, .element = elements};

    answer(&(struct redis_result){.outcome = REDIS_DONE,
                                  .reply = (const struct redis_value *)&reply,
                                  .sent_ns = loop.now_ns,
                                  .server = &server});
}

static void redis_is_away(void)
{
    answer(&(struct redis_result){.outcome = REDIS_REFUSED, .server = &server});
}

static void another_process_serves(const char *run_id)
{
    snprintf(server.run_id, sizeof(server.run_id), "%s", run_id);
    server.up_since_ns = loop.now_ns;
    pass(1000);
}

static int64_t quarantine_ms(void)
{
    return marker_longest_quarantine_ms(store.marker);
}

static int64_t losses(void)
{
    return metrics_value(&metrics, METRIC_REDIS_DATA_LOSSES);
}

static int set_up(void **state)
{
    (void)state;
    loop.now_ns = CLOCK_NS_PER_S;
    timers_init(&loop.timers);
    refreshed = NULL;
    config.quarantine_ms = 8000;
    server = (struct redis_server){.run_id = "one", .up_since_ns = 1};
    store.options = (struct store_options){.config = &config,
                                           .loop = &loop,
                                           .metrics = &metrics,
                                           .topology = (struct topology *)&loop};
    if (metrics_init(&metrics, 1) != 0)
        return -1;
    store.marker = marker_new(&store);
    return store.marker != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    marker_free(store.marker);
    metrics_release(&metrics);
    timers_release(&loop.timers);
    return 0;
}

/* --- tests -------------------------------------------------------------------------------- */

static void a_process_with_older_data_lost_some(void **state)
{
    (void)state;
    redis_says(1000, 900, 5000);
    pass(1000);
    redis_says(6000, 5000, 6000); /* another begin, with all data */
    assert_int_equal(losses(), 0);
    pass(1000);
    redis_says(7000, 5000, 7000);
    assert_int_equal(losses(), 1);
}

/* The same process, which has served all the time, also other front ends. */
static void a_long_time_without_redis_is_no_loss(void **state)
{
    (void)state;
    redis_says(1000, 900, 5000);
    for (int i = 0; i < 700; i++) {
        pass(1000);
        redis_is_away();
    }
    pass(1000);
    redis_says(1000, 900, 706000);
    assert_int_equal(losses(), 0);
}

/* The old master comes back, and was no replica meanwhile. */
static void a_process_that_was_replaced_lost_data(void **state)
{
    (void)state;
    redis_says(1000, 900, 50000);
    assert_int_equal(elsewhere_ms, 0);
    another_process_serves("two");
    assert_int_equal(elsewhere_ms, 50000);
    redis_says(51000, 50000, 51000);
    pass(9000);
    assert_int_equal(elsewhere_ms, 0);
    redis_says(51000, 50000, 60000);
    assert_int_equal(quarantine_ms(), 0);
    another_process_serves("one");
    assert_int_equal(elsewhere_ms, 60000);
    assert_true(quarantine_ms() > 0); /* nothing is granted before the answer */
    redis_says(61000, 50000, 61000);
    assert_int_equal(losses(), 1);
    assert_int_equal(quarantine_ms(), 8000);
}

/* The clock of Redis' host was set back by an hour after the process began. */
static void a_quarantine_is_no_longer_than_it_is_set(void **state)
{
    (void)state;
    redis_says(3700000, 0, 100000);
    assert_int_equal(quarantine_ms(), 8000);
    pass(8000);
    assert_int_equal(quarantine_ms(), 0);
}

static void another_layout_ends_the_connection(void **state)
{
    redisReply layout = {.type = REDIS_REPLY_STRING, .str = "2", .len = 1};
    redisReply *elements[] = {&layout};
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = elements};

    (void)state;
    expect_function_call(topology_node_check);
    answer(&(struct redis_result){
        .outcome = REDIS_DONE, .reply = (const struct redis_value *)&reply, .server = &server});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_process_with_older_data_lost_some, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_time_without_redis_is_no_loss, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_process_that_was_replaced_lost_data, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_quarantine_is_no_longer_than_it_is_set, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(another_layout_ends_the_connection, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
