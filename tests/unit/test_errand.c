/* storage/store/errand.c: when a script is sent again. Scripts are made up: each is answered
 * when the test says so. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/base/clock.h"
#include "storage/store/store_internal.h"

enum { ERRANDS = 3 };

struct sent {
    redis_done *done;
    void *arg;
};

struct task {
    struct errand errand;
    size_t sent, confirmed, ended;
    struct sent last; /* script */
    size_t order;     /* of the last script, among all */
};

static struct store store;
static struct task tasks[ERRANDS];
static struct task *filled;
static size_t sent_count;

void call_send(struct store_call *call, redis_done *done, void *arg)
{
    assert_null(call);
    filled->last = (struct sent){done, arg};
    filled->sent++;
    filled->order = ++sent_count;
}

static struct store_call *fill(struct store *of, void *arg)
{
    assert_ptr_equal(of, &store);
    filled = arg;
    return NULL;
}

static void on_confirmed(void *arg, const struct redis_result *result)
{
    struct task *task = arg;

    (void)result;
    assert_int_equal(task->ended, 0);
    task->confirmed++;
}

static void on_end(void *arg)
{
    struct task *task = arg;

    task->ended++;
}

static const struct errand_job jobs[ERRAND_RANKS] = {
    {ERRAND_FREES, fill, on_confirmed, on_end}, {ERRAND_TIDIES, fill, on_confirmed, on_end}};

static void start(struct task *task, enum errand_rank rank, int64_t ttl_ns)
{
    errand_start(&store, &task->errand, &jobs[rank], task, ttl_ns);
}

static void answer(struct task *task, const struct redis_result *result)
{
    task->last.done(task->last.arg, result);
}

static const struct redis_result done = {.outcome = REDIS_DONE},
                                 refused = {.outcome = REDIS_REFUSED},
                                 wrong_type = {.outcome = REDIS_REFUSED,
                                               .refusal = REDIS_REFUSED_WRONG_TYPE};

static int set_up(void **state)
{
    (void)state;
    store = (struct store){.options.loop = loop_new()};
    errands_init(&store);
    for (size_t i = 0; i < ERRANDS; i++)
        tasks[i] = (struct task){0};
    sent_count = 0;
    return store.options.loop != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    errands_release(&store);
    loop_free(store.options.loop);
    return 0;
}

static void test_a_confirmed_script_is_not_sent_again(void **state)
{
    (void)state;
    start(&tasks[0], ERRAND_FREES, CLOCK_NS_PER_S);
    start(&tasks[1], ERRAND_TIDIES, CLOCK_NS_PER_S);
    assert_int_equal(errands_pending(&store), 2);
    answer(&tasks[0], &done);
    answer(&tasks[1], &wrong_type); /* Redis will never run it */
    assert_int_equal(errands_pending(&store), 0);
    errands_retry(&store);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(tasks[i].sent, 1);
        assert_int_equal(tasks[i].confirmed, 1);
        assert_int_equal(tasks[i].ended, 1);
    }
}

static void test_a_refused_script_is_sent_again(void **state)
{
    struct timer *retry = &store.errands[ERRAND_FREES].retry;

    (void)state;
    start(&tasks[0], ERRAND_FREES, CLOCK_NS_PER_S);
    assert_false(timer_is_armed(retry));
    answer(&tasks[0], &refused);
    assert_true(timer_is_armed(retry));
    assert_int_equal(tasks[0].sent, 1);
    retry->fire(retry->arg);
    assert_int_equal(tasks[0].sent, 2);
    retry->fire(retry->arg); /* the script is under way */
    assert_int_equal(tasks[0].sent, 2);
    answer(&tasks[0], &done);
    assert_int_equal(tasks[0].confirmed, 1);
    assert_int_equal(tasks[0].ended, 1);
}

static void test_what_frees_is_sent_again_before_what_tidies(void **state)
{
    (void)state;
    start(&tasks[0], ERRAND_TIDIES, CLOCK_NS_PER_S);
    start(&tasks[1], ERRAND_FREES, CLOCK_NS_PER_S);
    start(&tasks[2], ERRAND_FREES, CLOCK_NS_PER_S);
    for (size_t i = 0; i < ERRANDS; i++)
        answer(&tasks[i], &refused);
    errands_retry(&store);
    assert_int_equal(tasks[1].order, ERRANDS + 1);
    assert_int_equal(tasks[2].order, ERRANDS + 2);
    assert_int_equal(tasks[0].order, ERRANDS + 3);
}

static void test_an_errand_expires(void **state)
{
    (void)state;
    start(&tasks[0], ERRAND_FREES, -1);
    errands_retry(&store); /* its script is under way */
    assert_int_equal(tasks[0].ended, 0);
    answer(&tasks[0], &refused);
    errands_retry(&store);
    assert_int_equal(tasks[0].sent, 1);
    assert_int_equal(tasks[0].confirmed, 0);
    assert_int_equal(tasks[0].ended, 1);
    assert_int_equal(errands_pending(&store), 0);
}

static void test_errands_end_with_their_store(void **state)
{
    (void)state;
    start(&tasks[0], ERRAND_FREES, CLOCK_NS_PER_S);
    start(&tasks[1], ERRAND_TIDIES, CLOCK_NS_PER_S);
    answer(&tasks[1], &refused);
    errands_release(&store);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(tasks[i].confirmed, 0);
        assert_int_equal(tasks[i].ended, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_confirmed_script_is_not_sent_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_refused_script_is_sent_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_frees_is_sent_again_before_what_tidies,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_errand_expires, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errands_end_with_their_store, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
