/* storage/look/lock_get.c: a look at a lock that may have many holders. The topology is made
 * up, and answers when the test says so. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <string.h>

#include "server/base/loop.h"
#include "storage/look/locks.h"
#include "storage/store/look_turns.h"
#include "storage/store/store_internal.h"
#include "storage/topology/topology_internal.h"

enum { LOOKS = 3, READERS = 70, SENT_MAX = 2 * LOOKS };

/* A script that was sent. */
struct sent {
    char holders_max[8], is_first[8];
    redis_done *done; /* NULL: answered */
    void *arg;
};

static struct sent sent[SENT_MAX];
static size_t sent_count, ended;

static void copy_arg(const struct script_call *call, size_t at, char text[8])
{
    size_t len = at < call->args->count ? call->args->args[at].len : 0;

    assert_true(len < 8);
    memcpy(text, len > 0 ? call->args->args[at].text : "", len);
    text[len] = '\0';
}

static void run_script(struct topology *topology, const struct script_call *call,
                       redis_done *done, void *arg)
{
    struct sent *one = &sent[sent_count++];

    (void)topology;
    assert_true(sent_count <= SENT_MAX);
    assert_int_equal(call->script, SCRIPT_LOOK);
    *one = (struct sent){.done = done, .arg = arg};
    copy_arg(call, LOOK_ARG_HOLDERS_MAX, one->holders_max);
    copy_arg(call, LOOK_ARG_IS_FIRST, one->is_first);
}

static struct topology_node node;

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

/* The lock is held by READERS readers, none of which is named. */
static void answer(size_t at)
{
    redisReply values[LOOK_REPLY_VALUES], *parts[LOOK_REPLY_VALUES];
    const redisReply reply = {
        .type = REDIS_REPLY_ARRAY, .elements = LOOK_REPLY_VALUES, .element = parts};
    const struct redis_result result = {.outcome = REDIS_DONE,
                                        .reply = (const struct redis_value *)&reply,
                                        .sent_ns = loop_now_ns(store.options.loop)};
    redis_done *done = sent[at].done;

    for (size_t i = 0; i < LOOK_REPLY_VALUES; i++) {
        values[i] = (redisReply){.type = REDIS_REPLY_STRING, .str = "", .len = 0};
        parts[i] = &values[i];
    }
    values[LOOK_REPLY_HOLDER_COUNT] = (redisReply){.type = REDIS_REPLY_INTEGER,
                                                   .integer = READERS};
    assert_non_null(done);
    sent[at].done = NULL;
    done(sent[at].arg, &result);
}

static void on_ended(void *arg, const struct lock_view *view)
{
    (void)arg;
    assert_int_equal(view->outcome, CALL_DONE);
    assert_int_equal(view->holder_count, READERS);
    ended++;
}

/* A worker's scripts that read many keys are sent one at a time, also where a look is to name
 * no waiters: a search for deadlocks, an alarm. */
static void looks_at_many_holders_take_turns(void **state)
{
    const struct lock_query query = {.holders_max = LOCK_HOLDERS_SHOWN};

    (void)state;
    for (size_t i = 0; i < LOOKS; i++)
        lock_get(&store, "shared", &query, on_ended, NULL);
    assert_int_equal(sent_count, LOOKS);
    for (size_t i = 0; i < LOOKS; i++) {
        assert_string_equal(sent[i].holders_max, "8");
        assert_string_equal(sent[i].is_first, "1");
    }
    for (size_t i = 0; i < LOOKS; i++)
        answer(i);
    assert_int_equal(ended, 0);
    for (size_t i = LOOKS; i < 2 * LOOKS; i++) {
        assert_int_equal(sent_count, i + 1);
        assert_string_equal(sent[i].holders_max, "100");
        assert_string_equal(sent[i].is_first, "");
        answer(i);
    }
    assert_int_equal(ended, LOOKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_at_many_holders_take_turns),
    };

    store.options.loop = loop_new();
    assert_non_null(store.options.loop);
    store.call = store_call_new(&store);
    assert_non_null(store.call);
    look_turns_init(&store);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    turns_release(&store.looks);
    store_call_free(store.call);
    loop_free(store.options.loop);
    return failed;
}
