/* storage/redis/link_sync.c: held replies whose connection ends when nothing else is under way,
 * with a caller that asks again at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_redis.h"

/* To the first script, its WAIT and the second script; then a reply that nobody asked for. */
static const char last_words[] = "+a\r\n:1\r\n+b\r\n:2\r\n";

/* ---- the caller ---- */

struct client {
    struct fake_redis_client side;
    struct redis_link *link;
    struct loop_hook turn;
    bool is_up, has_second;
    int done, unknown, refused;
};

static void run(struct client *client, const char *key);

static void on_done(void *arg, const struct redis_result *result)
{
    struct client *client = arg;

    client->done += result->outcome == REDIS_DONE;
    if (result->outcome == REDIS_UNKNOWN) {
        client->unknown++;
        run(client, "again");
    }
    if (result->outcome == REDIS_REFUSED) {
        client->refused++;
        loop_stop(client->side.loop);
    }
}

static void run(struct client *client, const char *key)
{
    struct script_args args;

    args_init(&args);
    args_key(&args, 0, key, strlen(key));
    const struct script_call call = script_call_make(SCRIPT_ACQUIRE, &args);
    redis_link_script(client->link, &call, on_done, client);
}

/* At the end of a turn, when the first script and its WAIT have been sent. */
static void on_turn(void *arg)
{
    struct client *client = arg;

    if (!client->is_up || client->has_second)
        return;
    client->has_second = true;
    run(client, "second");
    loop_again(client->side.loop);
}

static void on_up(void *arg)
{
    struct client *client = arg;

    client->is_up = true;
    run(client, "first");
}

static void on_down(void *arg)
{
    (void)arg;
}

/* Asks a Redis of which one replica confirms the first script. */
static struct client ask_with(int replicas)
{
    struct fake_redis redis = {
        .greeting = FAKE_REDIS_GREETING(":0\r\n"), .after = "second\r\n", .then = last_words};
    struct client client = {0};

    fake_redis_start(&redis);
    fake_redis_client_init(&client.side, &redis);
    client.turn = (struct loop_hook){.run = on_turn, .arg = &client};
    const struct redis_link_options options = {
        .url = &client.side.url,
        .loop = client.side.loop,
        .metrics = &client.side.metrics,
        .sync = {.replicas = replicas, .timeout_ms = 100},
        .up = on_up,
        .down = on_down,
        .arg = &client};
    client.link = redis_link_new(&options);
    loop_hook_add(client.side.loop, &client.turn); /* behind the connection's */
    loop_run(client.side.loop);
    redis_link_free(client.link);
    fake_redis_client_release(&client.side);
    fake_redis_stop(&redis);
    return client;
}

static void test_ask_again_when_held_replies_are_lost(void **state)
{
    const struct client client = ask_with(1);

    (void)state;
    assert_int_equal(client.done, 1);
    assert_int_equal(client.unknown, 1);
    assert_int_equal(client.refused, 1);
}

static void test_one_replica_of_two_does_not_confirm(void **state)
{
    const struct client client = ask_with(2);

    (void)state;
    assert_int_equal(client.done, 0);
    assert_true(client.unknown >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ask_again_when_held_replies_are_lost),
        cmocka_unit_test(test_one_replica_of_two_does_not_confirm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
