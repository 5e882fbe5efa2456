/* storage/session/watchdog.c: when it asks for the sessions whose visit is due. The calls are
 * made up: each claim is answered when the test says so. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/base/clock.h"
#include "storage/notes/notes.h"
#include "storage/redis/reply_made.h"
#include "storage/session/visit.h"
#include "storage/session/watchdog.h"
#include "storage/store/store_internal.h"
#include "storage/topology/topology.h"
#include "tests/lib/fake_loop.h"

#define MS CLOCK_NS_PER_MS

enum { ROUND_MS = 500, LOOK_MS = 5000, CALLS_MAX = 20 };

struct store_call {
    enum script script;
    size_t partitions;
    redis_done *done;
    void *arg;
};

static struct store_call calls[CALLS_MAX];
static size_t call_count;
static struct config config = {.watchdog_timeout_ms = 30000};
static struct store store;
static struct watchdog *watchdog;

const struct config *store_config(const struct store *asked)
{
    (void)asked;
    return &config;
}

struct loop *store_loop(const struct store *asked)
{
    (void)asked;
    return &loop;
}

struct topology *store_topology(const struct store *asked)
{
    (void)asked;
    return NULL;
}

bool topology_is_cluster(struct topology *topology)
{
    (void)topology;
    return false;
}

size_t topology_quorum_nodes(const struct topology *topology)
{
    (void)topology;
    return 0;
}

struct store_call *call_begin(struct store *asked, enum script script)
{
    (void)asked;
    assert_true(call_count < CALLS_MAX);
    calls[call_count] = (struct store_call){.script = script};
    return &calls[call_count++];
}

void call_key(struct store_call *call, size_t at, enum key_kind kind, struct key_base of,
              const char *id)
{
    (void)kind;
    (void)of;
    (void)id;
    call->partitions = at + 1;
}

struct key_base call_base(const char *name)
{
    return (struct key_base){.text = name, .len = strlen(name)};
}

void call_number(struct store_call *call, size_t at, int64_t number)
{
    (void)call;
    (void)at;
    (void)number;
}

void call_string(struct store_call *call, size_t at, const char *text)
{
    (void)call;
    (void)at;
    (void)text;
}

void call_send(struct store_call *call, redis_done *done, void *arg)
{
    call->done = done;
    call->arg = arg;
}

/* No claim finds a member. */
void lock_copy_text(const struct redis_value *reply, char *out, size_t out_size)
{
    (void)reply;
    (void)out;
    (void)out_size;
    fail();
}

void session_visit(struct store *asked, const char *session_id,
                   const char claim[VISIT_CLAIM_SIZE], visit_done *done, void *arg)
{
    (void)asked;
    (void)session_id;
    (void)claim;
    (void)done;
    (void)arg;
    fail();
}

void sessions_visit(struct store *asked, char (*ids)[SESSION_ID_SIZE], size_t count,
                    const char claim[VISIT_CLAIM_SIZE], visit_done *done, void *arg)
{
    (void)ids;
    (void)count;
    session_visit(asked, NULL, claim, done, arg);
}

void queue_visit(struct store *asked, const char *name, const char claim[VISIT_CLAIM_SIZE],
                 visit_done *done, void *arg)
{
    session_visit(asked, name, claim, done, arg);
}

/* Time goes by in steps, as rounds do. */
static void pass(int64_t ms)
{
    for (int64_t i = 0; i < ms; i += 10) {
        loop.now_ns += 10 * MS;
        timers_run(&loop.timers, loop.now_ns);
    }
}

/* Claims of sessions so far, and the last one. */
static size_t claims(struct store_call **last)
{
    size_t count = 0;

    for (size_t i = 0; i < call_count; i++) {
        if (calls[i].script != SCRIPT_INDEX_CLAIM)
            continue;
        count++;
        if (last != NULL)
            *last = &calls[i];
    }
    return count;
}

static void end_call(struct store_call *call, const struct redis_result *result)
{
    redis_done *done = call->done;

    call->done = NULL;
    done(call->arg, result);
}

/* Redis has found no member that is due, and that the next one of each partition is in so many
 * ms. */
static void answer(struct store_call *call, int64_t next_ms)
{
    struct redis_value *reply = value_make_list(INDEX_CLAIM_REPLY_NEXT_VISITS + 1);
    struct redis_value *next = value_make_list(call->partitions);

    for (size_t i = 0; i < call->partitions; i++)
        value_put(next, i, value_make_integer(next_ms));
    value_put(reply, INDEX_CLAIM_REPLY_CLAIM, value_make_integer(1));
    value_put(reply, INDEX_CLAIM_REPLY_FOUND, value_make_list(0));
    value_put(reply, INDEX_CLAIM_REPLY_NEXT_VISITS, next);
    const struct redis_result result = {.outcome = REDIS_DONE, .reply = reply};
    end_call(call, &result);
    value_free(reply);
}

static void fail_call(struct store_call *call)
{
    const struct redis_result result = {.outcome = REDIS_UNKNOWN};

    end_call(call, &result);
}

/* The first claim, of all partitions, is under way. */
static int set_up(void **state)
{
    (void)state;
    call_count = 0;
    loop = (struct loop){.now_ns = 1000 * MS};
    store = (struct store){0};
    watchdog = watchdog_new(&store);
    return watchdog != NULL && claims(NULL) == 1 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < call_count; i++)
        if (calls[i].done != NULL)
            fail_call(&calls[i]);
    watchdog_free(watchdog);
    store_parts_release(&store);
    timers_release(&loop.timers);
    return 0;
}

static void partitions_are_asked_again_when_the_next_visit_is_due(void **state)
{
    (void)state;
    answer(&calls[0], 2000);
    pass(2000 - 10);
    assert_int_equal(claims(NULL), 1);
    pass(ROUND_MS + 10);
    assert_int_equal(claims(NULL), 2);
}

static void members_of_others_are_looked_for_every_so_often(void **state)
{
    (void)state;
    answer(&calls[0], -1);
    pass(LOOK_MS - 10);
    assert_int_equal(claims(NULL), 1);
    pass(ROUND_MS + 10);
    assert_int_equal(claims(NULL), 2);
}

/* Redis has replied before it heard of the visit that is to come. */
static void a_visit_that_is_set_during_a_claim_is_not_forgotten(void **state)
{
    struct store_call *last = NULL;

    (void)state;
    index_expect(&store, INDEX_SESSIONS, "0aa1f2d4", 300);
    answer(&calls[0], -1);
    pass(300 - 10);
    assert_int_equal(claims(NULL), 1);
    pass(ROUND_MS + 10);
    assert_int_equal(claims(&last), 2);
    assert_int_equal(last->partitions, 1);
}

static void a_claim_that_failed_is_asked_again_in_the_next_round(void **state)
{
    (void)state;
    fail_call(&calls[0]);
    pass(ROUND_MS);
    assert_int_equal(claims(NULL), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(partitions_are_asked_again_when_the_next_visit_is_due),
        TEST(members_of_others_are_looked_for_every_so_often),
        TEST(a_visit_that_is_set_during_a_claim_is_not_forgotten),
        TEST(a_claim_that_failed_is_asked_again_in_the_next_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
