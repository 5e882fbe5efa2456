/* storage/redis/link_checks.c: the keys of the probe change while a connection is checked. */
#include "fake_redis.h"

#define GREETING                                                                               \
    "+OK\r\n:7\r\n$62\r\n# Server\r\nredis_version:7.0.15\r\nrun_id:00000001\r\nmaxmemory:"    \
    "0\r\n\r\n"

enum { CHANGE_MS = 100, ANSWER_MS = 300, END_MS = 700 };

static const char *const names[] = {"lock-id"};
static const struct redis_probe_keys homes[] = {{.names = names, .count = 1},
                                                {.names = names, .count = 1}};

struct client {
    struct fake_redis_client side;
    struct redis_probe probe;
    struct timer change, end;
    bool is_up;
};

static void on_up(void *arg)
{
    struct client *client = arg;

    client->is_up = true;
    loop_stop(client->side.loop);
}

static void on_down(void *arg)
{
    (void)arg;
}

/* The node has lost the slot of the second keys. */
static void change(void *arg)
{
    struct client *client = arg;

    client->probe.slot_count = 1;
    client->probe.edition++;
}

/* Whether the connection is up when Redis has answered the first keys, has waited before it
 * answers the second keys, and has answered so many further probes. */
static bool is_up_after(int probes)
{
    struct fake_redis redis = {.greeting = GREETING,
                               .probes = 1,
                               .after = "EVALSHA\r\n",
                               .then = ":1\r\n",
                               .delay_ms = ANSWER_MS,
                               .last_probes = probes};
    struct client client = {.probe = {.keys = homes, .slot_count = 2}};

    fake_redis_start(&redis);
    fake_redis_client_init(&client.side, &redis);
    const struct redis_link_options options = {.url = &client.side.url,
                                               .loop = client.side.loop,
                                               .metrics = &client.side.metrics,
                                               .probe = &client.probe,
                                               .up = on_up,
                                               .down = on_down,
                                               .arg = &client};
    struct timers *timers = loop_timers(client.side.loop);
    int64_t now_ns = loop_now_ns(client.side.loop);
    client.change = (struct timer){.fire = change, .arg = &client};
    client.end = (struct timer){.fire = on_give_up, .arg = client.side.loop};
    timer_arm(timers, &client.change, now_ns + CHANGE_MS * CLOCK_NS_PER_MS);
    timer_arm(timers, &client.end, now_ns + END_MS * CLOCK_NS_PER_MS);
    struct redis_link *link = redis_link_new(&options);
    loop_run(client.side.loop);
    redis_link_free(link);
    timer_cancel(timers, &client.change);
    timer_cancel(timers, &client.end);
    fake_redis_client_release(&client.side);
    fake_redis_stop(&redis);
    return client.is_up;
}

static void test_a_probe_that_changes_begins_anew(void **state)
{
    (void)state;
    assert_true(is_up_after(1));
}

static void test_answers_to_the_probe_before_prove_nothing(void **state)
{
    (void)state;
    assert_false(is_up_after(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_probe_that_changes_begins_anew),
        cmocka_unit_test(test_answers_to_the_probe_before_prove_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
