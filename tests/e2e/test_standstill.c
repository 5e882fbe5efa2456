/* The deadlines of the tests themselves on a machine that stands still for a while: the disk is
 * busy, or the processor is somebody else's. rlockd, Redis and the test all stand still, and no
 * deadline of the test may run out meanwhile. */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counters.h"
#include "flood.h"

enum {
    STAND_MS = 1500,
    LOSS_MS = 2500, /* rlockd gives the connection to Redis up */
    WAIT_MS = 1000,
    HELD_MS = 400,
    LATER_MS = 500,
    FLOOD_MS = 10000
};

/* Stops these processes for `ms`, beginning in a moment, and the first for `longer_ms` more. */
static pid_t stand_still_for(const pid_t *pids, size_t len, int ms, int longer_ms)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    nap_ms(100);
    for (size_t i = 0; i < len; i++)
        kill(pids[i], SIGSTOP);
    nap_ms(ms);
    for (size_t i = len; i-- > 0;) {
        if (i == 0)
            nap_ms(longer_ms);
        kill(pids[i], SIGCONT);
    }
    _exit(0);
}

static pid_t stand_still(const pid_t *pids, size_t len)
{
    return stand_still_for(pids, len, STAND_MS, 0);
}

/* The waiter's grant is due HELD_MS after the request, in the middle of the standstill. */
static void test_everything_stands_still(struct world *w)
{
    const pid_t pids[] = {child_pid(w->redis->child), child_pid(w->a->child), getpid()};

    expect_status(lock_put(w->a, "still", token_new(w), text(w, "ttl_ms=%d", HELD_MS)), 201);
    struct call *waiter = call_put(w->a, "still", token_new(w), "wait_ms=50000");
    pid_t child = stand_still(pids, COUNT_OF(pids));
    expect_status(call_await(waiter, WAIT_MS), 201);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* The look at Redis itself stands still, and ends before the attempt that the message of the
 * release has started: Redis reads the connection of the test first. */
static void test_redis_stands_still(struct world *w)
{
    const pid_t pids[] = {child_pid(w->redis->child)};
    struct slow slow = slow_start(w);

    expect_status(counter_send(w->a, "PUT", "semaphores/stalled?permits=1", NULL), 201);
    expect_status(counter_send(w->a, "POST", "semaphores/stalled/drain", NULL), 200);
    struct call *waiter = counter_call(slow.fe, "POST",
                                       "semaphores/stalled/acquire?wait_ms=50000", NULL);
    wait_until(counter_waiters(w->a, "semaphores/stalled") == 1, WAIT_MS);
    slow_settle(&slow);
    proxy_set(slow.proxy, PROXY_DELAY);
    expect_status(counter_send(w->a, "POST", "semaphores/stalled/release", NULL), 200);
    pid_t child = stand_still(pids, COUNT_OF(pids));
    wait_until(counter_value(w->redis, "stalled") == 0, WAIT_MS);
    expect_status(call_await(waiter, WAIT_MS), 200);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static const char *look_request(struct world *w, struct flood_guest *guest, size_t n,
                                int *status)
{
    (void)guest, (void)n;
    *status = 200;
    return text(w, "GET /v1/locks/still HTTP/1.1\r\nHost: x\r\n\r\n");
}

static bool has_ended(void *arg)
{
    return waitpid(*(const pid_t *)arg, NULL, WNOHANG) != 0;
}

/* The machine stood still until rlockd gave Redis up: not only the guest's request which waited
 * meanwhile gets 503, but also those after it, until rlockd is connected again. */
static void test_a_flood_after_a_standstill(struct world *w)
{
    const pid_t pids[] = {child_pid(w->redis->child), getpid()};
    const char *request = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    struct flood_guest looker = {.name = "a client that looks", .request = look_request};
    struct flood_guest *guests[] = {&looker};
    struct flood *flood = flood_open(w->a, 1, &request, 1);
    double refused = front_metric(w->a, "rlockd_redis_not_executed_total", NULL);
    pid_t child = stand_still_for(pids, COUNT_OF(pids), LOSS_MS, LATER_MS);

    flood_run(flood, guests, COUNT_OF(guests), 1, has_ended, &child, FLOOD_MS);
    assert_true(front_metric(w->a, "rlockd_redis_not_executed_total", NULL) > refused);
}

static void run_on(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* Another process takes the test's processor: the machine is late by what the test waits for.
 */
static void test_a_processor_is_somebody_elses(struct world *w)
{
    const char *const argv[] = {"sh", "-c", "while :; do :; done", NULL};
    int64_t end_ms = now_ms() + 20000;
    cpu_set_t before;

    if (access("/proc/self/schedstat", R_OK) != 0)
        skip();
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    run_on(sched_getcpu());
    child_start(w, "busy", argv, NULL);
    while (late_ms() < STAND_MS / 10 && now_ms() < end_ms)
        ;
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    /* The watch looks now and then, and rounds. */
    assert_in_range(late_ms(), STAND_MS / 10, now_ms() - end_ms + 20000 + STAND_MS / 10);
    assert_true(allowed_ms(WAIT_MS) >= patience_ms(WAIT_MS) + STAND_MS / 10);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_everything_stands_still),
        E2E_TEST(test_redis_stands_still),
        E2E_TEST(test_a_flood_after_a_standstill),
        E2E_TEST(test_a_processor_is_somebody_elses),
    };
    struct e2e_plan plan = {.name = "standstill", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
