/* storage/quorum/repeat.c with a loop and servers that are made up: how many scripts a server
 * is sent, and when. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "storage/quorum/repeat.h"
#include "tests/lib/fake_loop.h"

enum { SERVERS = 2, SCRIPTS = 1500, TURNS_MAX = 50, TTL_MS = 60000 };

struct call {
    redis_done *done;
    void *arg;
};

struct topology_node {
    bool is_down, refuses;
    struct call calls[SCRIPTS]; /* under way */
    size_t count;
    size_t sent; /* so far */
};

struct topology {
    struct topology_node nodes[SERVERS];
};

static struct topology topology;

struct topology_node *topology_next_node(struct topology *asked, struct topology_node *after)
{
    struct topology_node *next = after == NULL ? asked->nodes : after + 1;

    return next == asked->nodes + SERVERS ? NULL : next;
}

size_t topology_node_number(const struct topology_node *node)
{
    return (size_t)(node - topology.nodes);
}

bool topology_node_is_up(const struct topology_node *node, const char **reason)
{
    (void)reason;
    return !node->is_down;
}

void topology_node_script(struct topology *asked, struct topology_node *node,
                          const struct script_call *script, redis_done *done, void *arg)
{
    (void)asked;
    (void)script;
    assert_false(node->is_down);
    assert_true(node->count < SCRIPTS);
    node->calls[node->count++] = (struct call){.done = done, .arg = arg};
    node->sent++;
}

static struct repeat_line *line_new(void)
{
    loop = (struct loop){.now_ns = CLOCK_NS_PER_S};
    timers_init(&loop.timers);
    topology = (struct topology){0};
    return repeat_line_new(&topology, &loop);
}

static void line_free(struct repeat_line *line)
{
    repeat_line_free(line);
    timers_release(&loop.timers);
}

/* The server answers all scripts that are under way to it, in one turn of the loop. */
static void answer(struct topology_node *node)
{
    struct redis_result result = {.outcome = node->refuses ? REDIS_REFUSED : REDIS_DONE};
    size_t count = node->count;
    struct call calls[SCRIPTS];

    memcpy(calls, node->calls, sizeof(calls));
    node->count = 0;
    for (size_t i = 0; i < count; i++)
        calls[i].done(calls[i].arg, &result);
}

/* Turns of the loop, more than are needed, in which no time goes by. */
static void run(void)
{
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        for (size_t i = 0; i < SERVERS; i++)
            answer(&topology.nodes[i]);
        timers_run(&loop.timers, loop.now_ns);
    }
}

static void leave(struct repeat_line *line)
{
    for (size_t i = 0; i < SCRIPTS; i++) {
        struct script_args args;
        args_init(&args);
        args_key(&args, 0, "lock", strlen("lock"));
        repeat_start(line, SCRIPT_RELEASE, args_copy(&args), (1U << SERVERS) - 1, TTL_MS);
    }
}

/* As many as a server gets at a time are answered before it gets more. */
static void test_at_a_time(void **state)
{
    struct repeat_line *line = line_new();

    (void)state;
    leave(line);
    for (size_t i = 0; i < SERVERS; i++)
        assert_in_range(topology.nodes[i].sent, 100, 400);
    run();
    for (size_t i = 0; i < SERVERS; i++)
        assert_int_equal(topology.nodes[i].sent, SCRIPTS);
    line_free(line);
}

/* A server that refuses is asked again after a pause, as many at a time as before, and keeps
 * the other from none. */
static void test_refusals(void **state)
{
    struct repeat_line *line = line_new();
    struct topology_node *refuses = &topology.nodes[0], *confirms = &topology.nodes[1];

    (void)state;
    refuses->refuses = true;
    leave(line);
    size_t at_a_time = refuses->sent;
    for (size_t pauses = 1; pauses <= 10; pauses++) {
        run();
        assert_true(refuses->sent <= pauses * at_a_time);
        assert_int_equal(confirms->sent, SCRIPTS);
        loop.now_ns += REDIS_ASK_AGAIN_NS;
        timers_run(&loop.timers, loop.now_ns);
        assert_true(refuses->count > 0);
    }
    refuses->refuses = false;
    size_t before = refuses->sent - refuses->count;
    run();
    loop.now_ns += REDIS_ASK_AGAIN_NS;
    timers_run(&loop.timers, loop.now_ns);
    run();
    assert_int_equal(refuses->sent - before, SCRIPTS);
    assert_int_equal(confirms->sent, SCRIPTS);
    line_free(line);
}

/* A server that is back gets what was left at once. */
static void test_back(void **state)
{
    struct repeat_line *line = line_new();

    (void)state;
    topology.nodes[0].is_down = true;
    leave(line);
    run();
    assert_int_equal(topology.nodes[1].sent, SCRIPTS);
    topology.nodes[0].is_down = false;
    repeat_go_on(line);
    run();
    assert_int_equal(topology.nodes[0].sent, SCRIPTS);
    line_free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_at_a_time),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_back)};

    return cmocka_run_group_tests_name("quorum_repeat", tests, NULL, NULL);
}
