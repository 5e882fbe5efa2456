/* storage/census/walk.c: a walk over the nodes of a cluster that loses one. The topology is
 * made up, and answers when the test says so. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/loop.h"
#include "storage/census/walk.h"
#include "storage/notes/notes.h"
#include "storage/store/store_internal.h"
#include "storage/topology/topology_internal.h"

static struct topology_node first, second;
static bool is_first_gone;

static struct topology_node *node_of(struct topology *topology, const struct redis_tag *tag)
{
    (void)topology;
    (void)tag;
    return &second;
}

static struct topology_node *next_node(struct topology *topology, struct topology_node *node)
{
    (void)topology;
    if (node == &second)
        return NULL;
    assert_false(node == &first && is_first_gone); /* its memory is freed */
    return node == &first || is_first_gone ? &second : &first;
}

static struct topology_node *asked; /* NULL: no command is under way */
static redis_done *answered;        /* of that command */
static void *answered_arg;

static void node_command(struct topology *topology, struct topology_node *node,
                         const struct redis_command *command, redis_done *done, void *arg)
{
    (void)topology;
    (void)command;
    assert_null(asked);
    asked = node;
    answered = done;
    answered_arg = arg;
}

/* Scripts are answered when the test says so, all at once. */
enum { SCRIPTS_MAX = 32 };
static struct {
    redis_done *done;
    void *arg;
} scripts[SCRIPTS_MAX];
static size_t script_count;

static void run_script(struct topology *topology, const struct script_call *call,
                       redis_done *done, void *arg)
{
    (void)topology;
    (void)call;
    assert_true(script_count < SCRIPTS_MAX);
    scripts[script_count].done = done;
    scripts[script_count++].arg = arg;
}

static void answer_scripts(enum redis_outcome of_the_first)
{
    size_t count = script_count;

    script_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct redis_result result = {.outcome = i == 0 ? of_the_first : REDIS_DONE};
        scripts[i].done(scripts[i].arg, &result);
    }
}

static const struct topology_ops ops = {.is_cluster = true,
                                        .script = run_script,
                                        .node_of = node_of,
                                        .next_node = next_node,
                                        .node_command = node_command};
static struct topology topology = {.ops = &ops};
static struct config config;
static struct store store = {.options = {.config = &config, .topology = &topology}};
static struct seen seen;
static struct walk walk;
static int ended, completed;

static void on_ended(void *arg, bool is_complete)
{
    (void)arg;
    ended++;
    completed += is_complete;
}

/* The round has no keys, and the cursor is back at the node's begin. */
static void answer(enum redis_outcome outcome)
{
    const struct redis_result result = {.outcome = outcome};

    asked = NULL;
    answered(answered_arg, &result);
    assert_true(timer_is_armed(&walk.rest));
    timer_cancel(loop_timers(store.options.loop), &walk.rest);
}

/* A round without keys that is not the last one of its node. */
static void answer_more(const char *run_id)
{
    redisReply cursor = {.type = REDIS_REPLY_STRING, .str = "7", .len = 1};
    redisReply keys = {.type = REDIS_REPLY_ARRAY}, *parts[] = {&cursor, &keys};
    const redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = parts};
    struct redis_server server = {.is_cluster = true};
    const struct redis_result result = {
        .outcome = REDIS_DONE, .reply = (const struct redis_value *)&reply, .server = &server};

    snprintf(server.run_id, sizeof(server.run_id), "%s", run_id);
    asked = NULL;
    answered(answered_arg, &result);
    timer_cancel(loop_timers(store.options.loop), &walk.rest);
}

/* The step has taken so long, and the next one begins. */
static void end_looks(int64_t took_ns)
{
    walk.step_began_ns = clock_ns() - took_ns;
    answer_scripts(REDIS_DONE);
    timer_cancel(loop_timers(store.options.loop), &walk.rest);
    walk.rest.fire(walk.rest.arg);
}

static int begin(void **state)
{
    (void)state;
    is_first_gone = false;
    ended = completed = 0;
    script_count = 0;
    walk_init(&walk, &store, &seen);
    walk_start(&walk, 0, on_ended, NULL);
    assert_ptr_equal(asked, &first);
    answer(REDIS_DONE);
    return 0;
}

static void each_node_has_its_turn(void **state)
{
    (void)state;
    walk.rest.fire(walk.rest.arg);
    assert_ptr_equal(asked, &second);
    answer(REDIS_UNKNOWN);
    walk.rest.fire(walk.rest.arg);
    assert_int_equal(ended, 1);
    assert_int_equal(completed, 0);
}

/* A minute after a node has lost its slots the cluster forgets it; a step of the walk and its
 * rest may last for longer. Locks of the nodes behind it would seem to be free. */
static void a_walk_whose_node_is_gone_is_given_up(void **state)
{
    (void)state;
    is_first_gone = true;
    walk.rest.fire(walk.rest.arg);
    assert_null(asked);
    assert_int_equal(ended, 1);
    assert_int_equal(completed, 0);
}

/* Its cursors are those of the process that was there before: keys would be passed over. */
static void a_walk_whose_redis_process_is_another_is_given_up(void **state)
{
    (void)state;
    walk.rest.fire(walk.rest.arg);
    assert_ptr_equal(asked, &second);
    for (int i = 0; i < 3; i++) {
        answer_more("one");
        walk.rest.fire(walk.rest.arg);
        assert_ptr_equal(asked, &second);
    }
    answer_more("other");
    walk.rest.fire(walk.rest.arg);
    assert_null(asked);
    assert_int_equal(ended, 1);
    assert_int_equal(completed, 0);
}

static void the_sessions_are_counted_last(void **state)
{
    (void)state;
    walk.rest.fire(walk.rest.arg);
    answer(REDIS_DONE);
    walk.rest.fire(walk.rest.arg);
    assert_int_equal(script_count, INDEX_PARTITIONS);
    answer_scripts(REDIS_DONE);
    assert_int_equal(ended, 1);
    assert_int_equal(completed, 1);
}

/* The number of sessions would seem to have fallen. */
static void a_count_that_failed_is_not_left_out(void **state)
{
    (void)state;
    walk.rest.fire(walk.rest.arg);
    answer(REDIS_DONE);
    walk.rest.fire(walk.rest.arg);
    answer_scripts(REDIS_REFUSED);
    assert_int_equal(ended, 1);
    assert_int_equal(completed, 0);
}

/* What Redis reads from a connection at once it runs without a break. */
/* Step by step as many looks as `looks` says, until all locks of a round are looked at. */
static void expect_steps(const size_t *looks, const int64_t *took_ms, size_t steps)
{
    enum { KEYS = 100 };
    char names[KEYS][8];
    redisReply keys[KEYS], *list[KEYS];

    walk.rest.fire(walk.rest.arg);
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(names[i], sizeof(names[i]), "%zu", i);
        keys[i] = (redisReply){
            .type = REDIS_REPLY_STRING, .str = names[i], .len = strlen(names[i])};
        list[i] = &keys[i];
    }
    redisReply cursor = {.type = REDIS_REPLY_STRING, .str = "0", .len = 1};
    redisReply found = {.type = REDIS_REPLY_ARRAY, .elements = KEYS, .element = list};
    redisReply *parts[] = {&cursor, &found};
    const redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = parts};
    const struct redis_result result = {.outcome = REDIS_DONE,
                                        .reply = (const struct redis_value *)&reply};
    asked = NULL;
    walk.step_began_ns = clock_ns();
    answered(answered_arg, &result);
    timer_cancel(loop_timers(store.options.loop), &walk.rest);
    walk.rest.fire(walk.rest.arg);
    for (size_t i = 0; i < steps; i++) {
        assert_int_equal(script_count, looks[i]);
        end_looks(took_ms[i] * CLOCK_NS_PER_MS);
    }
    assert_int_equal(script_count, INDEX_PARTITIONS);
    answer_scripts(REDIS_DONE);
    assert_int_equal(completed, 1);
}

static void a_slow_step_is_followed_by_small_ones(void **state)
{
    static const size_t looks[] = {1, 2, 4, 8, 1, 2, 4, 8, 16, 32, 22};
    static const int64_t took_ms[] = {0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0};

    (void)state;
    expect_steps(looks, took_ms, sizeof(looks) / sizeof(looks[0]));
}

/* The way to the next master takes 4 ms, there and back. */
static void a_long_way_is_not_slow_for_ever(void **state)
{
    static const size_t looks[] = {1, 2, 4, 1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 25};
    static const int64_t took_ms[] = {0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};

    (void)state;
    expect_steps(looks, took_ms, sizeof(looks) / sizeof(looks[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_node_has_its_turn, begin),
        cmocka_unit_test_setup(a_walk_whose_node_is_gone_is_given_up, begin),
        cmocka_unit_test_setup(a_walk_whose_redis_process_is_another_is_given_up, begin),
        cmocka_unit_test_setup(a_slow_step_is_followed_by_small_ones, begin),
        cmocka_unit_test_setup(a_long_way_is_not_slow_for_ever, begin),
        cmocka_unit_test_setup(the_sessions_are_counted_last, begin),
        cmocka_unit_test_setup(a_count_that_failed_is_not_left_out, begin),
    };

    seen_init(&seen, SEEN_MAX);
    store.options.loop = loop_new();
    assert_non_null(store.options.loop);
    store.call = store_call_new(&store);
    assert_non_null(store.call);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    store_call_free(store.call);
    loop_free(store.options.loop);
    return failed;
}
