/* storage/topology/cluster_scout.c: which node is asked for the map while some keys cannot be
 * reached. The nodes are made up: each answers with the map that the test gives it. For one
 * test program, which is linked without the real connections and loop. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/topology/cluster_internal.h"
#include "tests/lib/fake_loop.h"

/* The masters of the first and of the second half of the slots. */
enum { MASTER = 7001, SUCCESSOR = 7002, OTHER = 7003, OLD_OTHER = 7004, REPLICA = 7005 };
enum { HALF = REDIS_SLOTS / 2, FIRST = MASTER, NODES = REPLICA - MASTER + 1 };

struct redis_link {
    struct redis_link_options options;
    bool is_leaving;
};

static struct metrics metrics;
static struct cluster cluster;
static struct redis_url url;
static struct redis_link link;
static redis_done *answer;   /* to the question under way */
static int first_of[NODES];  /* whom the map of each node names */
static int second_of[NODES]; /* as above */
static int first, second;    /* of the map in force */
static struct cluster_node nodes[NODES];
static bool serves[NODES];
static size_t moves, maps; /* connections to other nodes; maps that were put in force */

/* --- what the scout needs ----------------------------------------------------------------- */

struct redis_link *redis_link_new(const struct redis_link_options *options)
{
    link.options = *options;
    return &link;
}

void redis_link_free(struct redis_link *freed)
{
    (void)freed;
}

void redis_link_stop(struct redis_link *stopped)
{
    (void)stopped;
}

bool redis_link_is_up(const struct redis_link *asked)
{
    return !asked->is_leaving;
}

void redis_link_reconnect(struct redis_link *left, const char *reason)
{
    (void)reason;
    left->is_leaving = true;
}

const char *redis_link_last_reason(const struct redis_link *asked)
{
    (void)asked;
    return "";
}

void redis_link_proven(struct redis_link *proven)
{
    (void)proven;
}

void redis_link_command(struct redis_link *asked, const struct redis_command *command,
                        redis_done *done, void *arg)
{
    (void)asked;
    (void)command;
    (void)arg;
    answer = done;
}

bool cluster_slots_read(struct cluster_slots *slots, const struct redis_value *reply,
                        const char *asked)
{
    size_t i = link.options.url->hosts[0].port - FIRST;

    (void)reply;
    (void)asked;
    memset(slots, 0, sizeof(*slots));
    slots->master_count = 2;
    slots->replica_count = 1;
    slots->masters[0] = (struct redis_host){.host = "h", .port = (uint16_t)first_of[i]};
    slots->masters[1] = (struct redis_host){.host = "h", .port = (uint16_t)second_of[i]};
    slots->replicas[0] = (struct redis_host){.host = "h", .port = REPLICA};
    for (size_t slot = HALF; slot < REDIS_SLOTS; slot++)
        slots->master_of[slot] = 1;
    return true;
}

bool cluster_node_is_up(const struct cluster_node *node)
{
    return serves[node - nodes];
}

void cluster_note_state(struct cluster *noted)
{
    (void)noted;
}

bool topology_is_ready(const struct topology *topology, const char **why_not)
{
    (void)topology;
    (void)why_not;
    return serves[first - FIRST] && serves[second - FIRST];
}

static void on_mapped(struct cluster *mapped)
{
    maps++;
    first = mapped->slots->masters[0].port;
    second = mapped->slots->masters[1].port;
    for (size_t slot = 0; slot < REDIS_SLOTS; slot++)
        mapped->owners[slot] = &nodes[(slot < HALF ? first : second) - FIRST];
}

/* --- the tests ---------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    memset(&cluster, 0, sizeof(cluster));
    memset(nodes, 0, sizeof(nodes));
    link = (struct redis_link){0};
    timers_init(&loop.timers);
    loop.now_ns = clock_ns();
    url = (struct redis_url){.host_count = 1};
    url.hosts[0] = (struct redis_host){.host = "h", .port = REPLICA};
    cluster.topology.options.loop = &loop;
    cluster.topology.options.url = &url;
    cluster.topology.options.metrics = &metrics;
    cluster.slots = calloc(1, sizeof(*cluster.slots));
    for (int i = 0; i < NODES; i++) {
        nodes[i].at = (struct redis_host){.host = "h", .port = (uint16_t)(FIRST + i)};
        nodes[i].cluster = &cluster;
        DL_APPEND(cluster.nodes, &nodes[i]);
        first_of[i] = MASTER;
        second_of[i] = OTHER;
        serves[i] = true;
    }
    serves[OLD_OTHER - FIRST] = false;
    moves = maps = 0;
    answer = NULL;
    assert_true(cluster_scout_start(&cluster, on_mapped));
    link.options.up(&cluster);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cluster_scout_stop(&cluster);
    cluster_scout_free(&cluster);
    timers_release(&loop.timers);
    free(cluster.slots);
    return 0;
}

/* A node that does not serve cannot be connected to. */
static void connect_anew(void)
{
    link.is_leaving = false;
    do {
        moves++;
        link.options.down(&cluster);
    } while (!serves[link.options.url->hosts[0].port - FIRST]);
    link.options.up(&cluster);
}

static void pass_ms(int ms)
{
    for (int64_t end_ns = loop.now_ns + ms * CLOCK_NS_PER_MS; loop.now_ns < end_ns;) {
        const struct redis_result result = {.outcome = REDIS_DONE};
        redis_done *done = answer;

        answer = NULL;
        if (done != NULL)
            done(&cluster, &result);
        if (link.is_leaving)
            connect_anew();
        loop.now_ns += 250 * CLOCK_NS_PER_MS;
        cluster_scout_round(&cluster);
        timers_run(&loop.timers, loop.now_ns);
    }
}

static void a_cluster_that_serves_is_asked_at_one_node(void **state)
{
    (void)state;
    pass_ms(60000);
    assert_true(maps > 10);
    assert_int_equal(moves, 0);
}

/* The bus of the replica is cut off, but not its port for clients. */
static void the_map_of_an_isolated_replica_is_left(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++)
        first_of[i] = FIRST + i == REPLICA ? MASTER : SUCCESSOR;
    serves[MASTER - FIRST] = false;
    pass_ms(4000);
    assert_int_equal(first, SUCCESSOR);
    size_t moves_before = moves;
    pass_ms(60000);
    assert_int_equal(moves, moves_before);
}

/* All nodes name a dead master until it has a successor. */
static void a_failover_is_awaited_with_few_moves(void **state)
{
    (void)state;
    pass_ms(5000);
    serves[MASTER - FIRST] = false;
    pass_ms(20000);
    assert_true(moves > 0 && moves < 10);
    for (int i = 0; i < NODES; i++)
        first_of[i] = SUCCESSOR;
    pass_ms(1000);
    assert_int_equal(first, SUCCESSOR);
}

/* A master has died for good, and the isolated replica knows the last but one of the others. */
static void a_map_that_takes_slots_from_a_master_that_serves_is_not_used(void **state)
{
    (void)state;
    serves[MASTER - FIRST] = false;
    pass_ms(4000);
    assert_int_not_equal(link.options.url->hosts[0].port, REPLICA);
    second_of[REPLICA - FIRST] = OLD_OTHER;
    for (int s = 0; s < 300; s++) {
        pass_ms(1000);
        assert_int_equal(second, OTHER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_cluster_that_serves_is_asked_at_one_node, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_map_of_an_isolated_replica_is_left, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_failover_is_awaited_with_few_moves, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_map_that_takes_slots_from_a_master_that_serves_is_not_used, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
