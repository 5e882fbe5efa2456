/* storage/census/publish.c: the looks at locks whose long holds are told. The last picture and
 * the locks are made up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>

#include "storage/census/census.h"
#include "storage/census/publish.h"
#include "storage/look/locks.h"
#include "storage/store/store_internal.h"
#include "storage/topology/topology_internal.h"

enum { HOLDS = 5, NOW_MS = 100000 };

static struct topology_node node;
static lock_get_done *looking; /* NULL: no look is under way */
static void *looking_arg;
static int looks, ended;

void lock_get(struct store *store, const char *name, const struct lock_query *query,
              lock_get_done *done, void *arg)
{
    char expected[16];

    (void)store;
    (void)query;
    snprintf(expected, sizeof(expected), "lock-%d", looks++);
    assert_string_equal(name, expected);
    assert_null(looking);
    assert_int_equal(ended, 0);
    looking = done;
    looking_arg = arg;
}

/* There was no picture; the next one is written. */
static void run_script(struct topology *topology, const struct script_call *call,
                       redis_done *done, void *arg)
{
    redisReply age = {.type = REDIS_REPLY_INTEGER, .integer = -1};
    redisReply now = {.type = REDIS_REPLY_INTEGER, .integer = NOW_MS};
    redisReply none = {.type = REDIS_REPLY_STRING, .str = ""}, *parts[] = {&age, &now, &none};
    const redisReply read = {.type = REDIS_REPLY_ARRAY, .elements = 3, .element = parts};
    const redisReply written = {.type = REDIS_REPLY_INTEGER, .integer = 1};
    const redisReply *reply = call->script == SCRIPT_CENSUS_READ ? &read : &written;
    const struct redis_result result = {.outcome = REDIS_DONE,
                                        .reply = (const struct redis_value *)reply};

    (void)topology;
    done(arg, &result);
}

static struct topology_node *node_of(struct topology *topology, const struct redis_tag *tag)
{
    (void)topology;
    (void)tag;
    return &node;
}

static const struct topology_ops ops = {
    .is_cluster = true, .node_of = node_of, .script = run_script};
static struct topology topology = {.ops = &ops};
static struct config config;
static struct store store = {.options = {.config = &config, .topology = &topology}};

static void on_ended(void *arg)
{
    (void)arg;
    ended++;
}

/* A hundred alarms may begin at once, of locks with many readers each. */
static void one_lock_is_looked_at_after_the_other(void **state)
{
    static struct census_picture picture;
    const struct lock_view view = {.outcome = CALL_NOT_EXECUTED};

    (void)state;
    for (int i = 0; i < HOLDS; i++) {
        struct census_entry entry = {.kind = "read", .since_ms = i};
        snprintf(entry.name, sizeof(entry.name), "lock-%d", i);
        snprintf(entry.who, sizeof(entry.who), "0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c1%d:0", i);
        picture_add(&picture, &entry);
    }
    const struct publication publication = {.kind = CENSUS_HELD,
                                            .picture = &picture,
                                            .counts = "",
                                            .worker_id = "worker",
                                            .long_ms = 1000};
    census_publish(&store, &publication, on_ended, NULL);
    for (int i = 0; i < HOLDS; i++) {
        lock_get_done *done = looking;
        assert_int_equal(looks, i + 1);
        assert_non_null(done);
        looking = NULL;
        done(looking_arg, &view);
    }
    assert_int_equal(looks, HOLDS);
    assert_int_equal(ended, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_lock_is_looked_at_after_the_other),
    };

    store.call = store_call_new(&store);
    assert_non_null(store.call);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    store_call_free(store.call);
    return failed;
}
