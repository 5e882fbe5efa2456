/* storage/store/visits.c: which leases one script visits. The calls are made up: each
 * notes its keys, and is answered when the test says so. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "storage/store/store_internal.h"
#include "storage/topology/topology.h"

#define ID "0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c11"

enum { CALLS_MAX = 40, KEYS_MAX = 32, LEASES_MAX = 40, KEY_MAX = 48 };

struct store_call {
    size_t keys;
    char locks[KEYS_MAX][KEY_MAX];
    size_t arguments;
    bool has_id, has_session;
    redis_done *done;
    void *arg;
};

static struct store_call calls[CALLS_MAX];
static size_t call_count, visited[LEASES_MAX], done_count;
static bool is_cluster;

bool topology_is_cluster(struct topology *topology)
{
    (void)topology;
    return is_cluster;
}

struct store_call *call_begin(struct store *store, enum script script)
{
    (void)store;
    (void)script;
    assert_true(call_count < CALLS_MAX);
    calls[call_count] = (struct store_call){0};
    return &calls[call_count++];
}

void call_key(struct store_call *call, size_t at, enum key_kind kind, struct key_base of,
              const char *id)
{
    (void)id;
    if (kind == KEY_OBJECT)
        snprintf(call->locks[at / 2], KEY_MAX, "%.*s", (int)of.len, of.text);
    call->keys = at + 1;
}

void call_string(struct store_call *call, size_t at, const char *text)
{
    if (at == LEASE_WATCH_ARG_LEASE_ID)
        call->has_id = strcmp(text, ID) == 0;
    if (at == LEASE_WATCH_ARG_SESSION)
        call->has_session = strcmp(text, "one") == 0;
    if (at >= call->arguments)
        call->arguments = at + 1;
}

void call_send(struct store_call *call, redis_done *done, void *arg)
{
    call->done = done;
    call->arg = arg;
}

static void on_visited(void *arg, size_t i, const struct redis_result *result)
{
    (void)arg;
    assert_int_equal(result->outcome, REDIS_DONE);
    visited[i]++;
}

static void on_done(void *arg)
{
    (void)arg;
    done_count++;
}

/* One after the other, and those that an answer lets go. */
static void answer_all(void)
{
    const struct redis_result result = {.outcome = REDIS_DONE};

    for (size_t i = 0; i < call_count; i++)
        calls[i].done(calls[i].arg, &result);
}

static struct lease_ref refs[LEASES_MAX];
static struct store store;

static void make_refs(const char *const *locks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[2 * KEY_MAX];
        int len = snprintf(text, sizeof(text), "%s %s", ID, locks[i]);
        lease_ref_copy(&refs[i], text, (size_t)len);
    }
}

static void start(const char *const *locks, size_t count, const bool *is_wanted, bool is_shared)
{
    const struct lease_visit_job job = {.script = is_shared ? SCRIPT_WATCH_MANY
                                                            : SCRIPT_LEASE_WATCH,
                                        .session_id = "one",
                                        .is_shared = is_shared};

    make_refs(locks, count);
    assert_true(
        lease_visits_start(&store, &job, refs, count, is_wanted, on_visited, on_done, NULL));
}

/* Every wanted lease was visited once. */
static void finish(size_t count, const bool *is_wanted)
{
    answer_all();
    assert_int_equal(done_count, 1);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(visited[i], is_wanted == NULL || is_wanted[i]);
        lease_ref_release(&refs[i]);
    }
}

static void expect_call(size_t i, const char *const *locks, size_t count)
{
    assert_true(i < call_count);
    assert_int_equal(calls[i].keys, 2 * count);
    for (size_t k = 0; k < count; k++)
        assert_string_equal(calls[i].locks[k], locks[k]);
}

static int set_up(void **state)
{
    (void)state;
    memset(calls, 0, sizeof(calls));
    memset(visited, 0, sizeof(visited));
    call_count = done_count = 0;
    is_cluster = false;
    store = (struct store){.options.loop = loop_new()};
    visits_init(&store);
    return store.options.loop != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    loop_free(store.options.loop);
    return 0;
}

static const char *const tagged[] = {"{a}:1", "{b}:1", "{a}:2", "c", "{b}:2", "{a}:3", "{c}:1"};

static void a_single_server_takes_them_in_their_order(void **state)
{
    (void)state;
    start(tagged, 7, NULL, true);
    assert_int_equal(call_count, 1);
    expect_call(0, tagged, 7);
    assert_false(calls[0].has_id);
    assert_true(calls[0].has_session);
    assert_int_equal(calls[0].arguments, 4);
    finish(7, NULL);
}

static void a_script_of_a_cluster_has_leases_of_one_tag(void **state)
{
    const char *const of_a[] = {"{a}:1", "{a}:2", "{a}:3"};
    const char *const of_b[] = {"{b}:1", "{b}:2"};
    const char *const of_c[] = {"c", "{c}:1"};

    (void)state;
    is_cluster = true;
    start(tagged, 7, NULL, true);
    assert_int_equal(call_count, 3);
    expect_call(0, of_a, 3);
    expect_call(1, of_c, 2);
    expect_call(2, of_b, 2);
    finish(7, NULL);
}

static void a_lease_that_is_not_wanted_is_in_no_script(void **state)
{
    const bool is_wanted[] = {true, false, true, false, true, false, true};
    const char *const wanted[] = {"{a}:1", "{a}:2", "{b}:2", "{c}:1"};

    (void)state;
    start(tagged, 7, is_wanted, true);
    assert_int_equal(call_count, 1);
    expect_call(0, wanted, 4);
    finish(7, is_wanted);
}

static void a_script_has_sixteen_leases_at_most(void **state)
{
    static const char *locks[LEASES_MAX];

    (void)state;
    for (size_t i = 0; i < LEASES_MAX; i++)
        locks[i] = "lock";
    is_cluster = true;
    start(locks, LEASES_MAX, NULL, true);
    assert_int_equal(call_count, 2); /* 32 leases are under way */
    expect_call(0, locks, 16);
    expect_call(1, locks + 16, 16);
    finish(LEASES_MAX, NULL);
    assert_int_equal(call_count, 3);
    expect_call(2, locks + 32, 8);
}

static void a_script_for_one_lease_has_its_id(void **state)
{
    (void)state;
    start(tagged, 2, NULL, false);
    assert_int_equal(call_count, 2);
    expect_call(0, tagged, 1);
    expect_call(1, tagged + 1, 1);
    assert_true(calls[0].has_id);
    assert_true(calls[0].has_session);
    assert_int_equal(calls[0].arguments, 4);
    finish(2, NULL);
}

/* Visits the leases from number `from` on. */
static void look_at(const char *session_id, size_t from, size_t count)
{
    const struct lease_visit_job job = {
        .script = SCRIPT_LEASE_CLAIM, .line = VISIT_LOOKS, .session_id = session_id};

    assert_true(
        lease_visits_start(&store, &job, refs + from, count, NULL, on_visited, on_done, NULL));
}

static void answer(size_t i)
{
    const struct redis_result result = {.outcome = REDIS_DONE};

    calls[i].done(calls[i].arg, &result);
}

/* However many requests look at one session, its visits are one in the line. */
static void a_session_gets_no_more_turns_by_more_requests(void **state)
{
    enum { UNDER_WAY = 8, MANY = 30 };
    const char *locks[LEASES_MAX];

    (void)state;
    for (size_t i = 0; i < MANY; i++)
        locks[i] = "of-the-crowd";
    locks[MANY] = "bystander";
    make_refs(locks, MANY + 1);
    for (size_t i = 0; i < 3; i++)
        look_at("crowd", i * MANY / 3, MANY / 3);
    look_at("other", MANY, 1);
    assert_int_equal(call_count, UNDER_WAY);
    answer(0);
    answer(1);
    assert_int_equal(call_count, UNDER_WAY + 2);
    assert_string_equal(calls[UNDER_WAY].locks[0], "of-the-crowd");
    assert_string_equal(calls[UNDER_WAY + 1].locks[0], "bystander");
    for (size_t i = 2; i < call_count; i++)
        answer(i);
    assert_int_equal(call_count, MANY + 1);
    assert_int_equal(done_count, 4);
    for (size_t i = 0; i <= MANY; i++)
        lease_ref_release(&refs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_single_server_takes_them_in_their_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_script_of_a_cluster_has_leases_of_one_tag, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lease_that_is_not_wanted_is_in_no_script, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_script_has_sixteen_leases_at_most, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_script_for_one_lease_has_its_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_session_gets_no_more_turns_by_more_requests, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
