/* storage/redis/link.c and the topologies: connections that are given up for good. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/base/metrics.h"
#include "storage/redis/link.h"
#include "storage/topology/topology.h"

struct asker {
    struct redis_link *link; /* or a node of a topology, or its keys */
    struct topology *topology;
    struct topology_node *node;
    int again; /* how often it asks once more when it is refused */
    int refused;
};

static void on_up_or_down(void *arg)
{
    (void)arg;
}

static void ask(struct asker *asker);

static void on_done(void *arg, const struct redis_result *result)
{
    struct asker *asker = arg;

    assert_int_equal(result->outcome, REDIS_REFUSED);
    asker->refused++;
    if (asker->again-- > 0)
        ask(asker);
}

static void ask(struct asker *asker)
{
    static const char *const args[] = {"PING"};
    static const size_t lens[] = {4};
    static const struct redis_command ping = {.argc = 1, .argv = args, .lens = lens};

    const struct redis_tag tag = redis_tag_of("{x}", 3);

    if (asker->link != NULL)
        redis_link_command(asker->link, &ping, on_done, asker);
    else if (asker->node != NULL)
        topology_node_command(asker->topology, asker->node, &ping, on_done, asker);
    else
        topology_command(asker->topology, &tag, &ping, on_done, asker);
}

/* Who asked too late is told before it returns: afterwards there may be nobody to be answered.
 * So is who asks once more because of that, as one that looks for the holder does. */
static void test_nobody_is_left_waiting(void **state)
{
    struct loop *loop = loop_new();
    struct redis_url url;
    struct metrics metrics;
    char error[200];

    (void)state;
    assert_non_null(loop);
    assert_int_equal(metrics_init(&metrics, 1), 0);
    assert_int_equal(
        redis_url_parse(&url, "unix:///nonexistent/redis.sock", error, sizeof(error)), 0);
    const struct redis_link_options options = {.url = &url,
                                               .loop = loop,
                                               .metrics = &metrics,
                                               .up = on_up_or_down,
                                               .down = on_up_or_down};
    struct asker asker = {.link = redis_link_new(&options), .again = 2};
    assert_non_null(asker.link);
    ask(&asker);
    ask(&asker);
    assert_int_equal(asker.refused, 0);
    redis_link_stop(asker.link);
    assert_int_equal(asker.refused, 4);
    redis_link_free(asker.link);
    assert_int_equal(asker.refused, 4);
    metrics_release(&metrics);
    loop_free(loop);
}

/* Whatever the topology: no connection is left that somebody waits for. */
static void test_no_topology_leaves_anybody(void **state)
{
    static const char *const urls[] = {
        "redis://127.0.0.1:1", "redis-sentinel://127.0.0.1:1/master",
        "redis-cluster://127.0.0.1:1", "redis-quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"};

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct loop *loop = loop_new();
        struct redis_url url;
        struct metrics metrics;
        char error[200];

        assert_int_equal(metrics_init(&metrics, 1), 0);
        assert_int_equal(redis_url_parse(&url, urls[i], error, sizeof(error)), 0);
        const struct topology_options options = {.url = &url,
                                                 .loop = loop,
                                                 .metrics = &metrics,
                                                 .heartbeat_channel = "heartbeat",
                                                 .up = on_up_or_down,
                                                 .down = on_up_or_down};
        struct asker asker = {.topology = topology_new(&options), .again = 1};
        assert_non_null(asker.topology);
        if (topology_quorum_nodes(asker.topology) > 0)
            asker.node = topology_next_node(asker.topology, NULL);
        ask(&asker);
        assert_int_equal(asker.refused, 0);
        topology_stop(asker.topology);
        assert_int_equal(asker.refused, 2);
        topology_free(asker.topology);
        metrics_release(&metrics);
        loop_free(loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_is_left_waiting),
        cmocka_unit_test(test_no_topology_leaves_anybody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
