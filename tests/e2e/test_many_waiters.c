/* Many requests that begin to wait at the same time: the kernel asks whether their clients
 * live, and takes none that lives for dead. */
#include "harness.h"

#include <sys/resource.h>

enum {
    SOON_MS = 10000,
    LOCKS = 8,
    WAITERS = 4000, /* four times what the kernel queues between processes of a machine */
    WAITERS_PER_LOCK = WAITERS / LOCKS,
    DESCRIPTORS = WAITERS + 200,
    NOTICED_S = 25 /* a client that vanished */
};

static struct raw *waiters[WAITERS];

static bool has_descriptors(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < DESCRIPTORS)
        limit.rlim_cur = limit.rlim_max;
    return limit.rlim_cur >= DESCRIPTORS && setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static void hold_locks(struct front *fe)
{
    for (int i = 0; i < LOCKS; i++)
        expect_status(
            lock_put(fe, text(fe->world, "many-%d", i), token_new(fe->world), "ttl_ms=3600000"),
            201);
}

static void test_all_stay(struct world *w)
{
    skip_on_cluster(w); /* the kernel is the same there */
    skip_where(w, !has_descriptors());
    struct front *fe = front_start(w, "--redis", w->redis->url, "--max-wait-ms", "600000",
                                   NULL);
    hold_locks(fe);
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = raw_open(fe);
    for (int i = 0; i < WAITERS; i++)
        raw_text(waiters[i],
                 "PUT /v1/locks/many-%d?wait_ms=600000 HTTP/1.1\r\nHost: x\r\n"
                 "Lease-Token: 7c9e6679-7425-40de-944b-%012d\r\nContent-Length: 0\r\n\r\n",
                 i / WAITERS_PER_LOCK, i);
    wait_until(front_metric(fe, "rlockd_waiters", NULL) == WAITERS, SOON_MS);
    nap_ms(1000 * (NOTICED_S + 5)); /* by the kernel's clock */
    assert_true(front_metric(fe, "rlockd_waiters", NULL) == WAITERS);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_all_stay),
    };
    struct e2e_plan plan = {.name = "many", E2E_TESTS(tests), .front_ends = 0};

    return e2e_run(&plan);
}
