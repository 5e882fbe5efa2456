/* The race of topology_race.h behind Sentinels, while the master is replaced. */
#include <signal.h>

#include "sentinel.h"
#include "topology_race.h"

enum { LOCKS = 4, RESTART_MS = 15000, CALM_MS = 600000 };

/* --- faults ------------------------------------------------------------------------------- */

static void replace_by_hand(void *topology)
{
    const struct trio *trio = topology;

    sentinel_ok(trio->sentinel[0], "SENTINEL FAILOVER mymaster");
}

static void kill_master(void *topology)
{
    const struct trio *trio = topology;

    child_signal(trio->server[0]->child, SIGKILL);
}

static void pause_master(void *topology)
{
    const struct trio *trio = topology;

    redis_freeze(trio->server[0]);
    nap_ms(5000);
    redis_thaw(trio->server[0]);
}

/* Replicas get nothing more of what the master does, and one of them follows it. */
static void isolate_and_kill(void *topology)
{
    const struct trio *trio = topology;

    redis_ok(trio->server[0], "ACL SETUSER default -psync -sync -replconf");
    redis_ok(trio->server[0], "CLIENT KILL TYPE replica");
    nap_ms(2000);
    kill_master(topology);
}

/* That of rlockd; a server that restarts has forgotten it. */
static void make_user(struct redis *redis)
{
    redis_ok(redis, "ACL SETUSER app on >s3cret ~* &* +@all");
}

/* Neither Sentinels nor replicas reach the master, but rlockd does, by a user of its own. */
static void part(void *topology)
{
    const struct trio *trio = topology;
    struct redis *master = trio->server[0];
    int made = trio_failovers(trio);

    redis_ok(master, "ACL SETUSER default -psync -sync -replconf -ping -info");
    redis_ok(master, "CLIENT KILL TYPE replica");
    wait_until(trio_failovers(trio) > made, RESTART_MS);
    nap_ms(1000);
    redis_ok(master, "ACL SETUSER default +@all");
}

/* --- races -------------------------------------------------------------------------------- */

static json_int_t failovers_of(struct front *fe)
{
    return reply_int(http(fe, "GET", "/readyz", NULL), "redis.failovers");
}

/* The Sentinels number each attempt of a failover, and say which one made the last master. A
 * busy machine may make them change their minds once more; rlockd counts no more than they do.
 */
static void race(struct world *w, const struct topology_fault *fault)
{
    struct trio trio = trio_start(w);
    const char *hosts = strstr(trio.url, "://") + 3;

    for (int i = 0; i < TRIO; i++)
        make_user(trio.server[i]);
    const char *scheme = text(w, "%.*s", (int)(hosts - trio.url), trio.url);
    topology_race(w, text(w, "%sapp:s3cret@%s", scheme, hosts), LOCKS, fault, &trio);
    int64_t made = trio_failovers(&trio);
    assert_in_range(failovers_of(w->a), 1, made);
    assert_true(trio_master(&trio) != trio.server[0] || made > 1);
}

static void test_failover_by_hand(struct world *w)
{
    race(w, &(struct topology_fault){.strike = replace_by_hand, .loses = true});
}

static void test_master_killed(struct world *w)
{
    race(w, &(struct topology_fault){.strike = kill_master, .loses = true});
}

static void test_master_paused(struct world *w)
{
    race(w, &(struct topology_fault){.strike = pause_master, .loses = true, .is_late = true});
}

/* What the replicas did not get is lost: clients may overlap. */
static void test_master_isolated(struct world *w)
{
    race(w, &(struct topology_fault){
                .strike = isolate_and_kill, .loses = true, .is_long = true, .seconds = 14});
}

/* What the replicas did not get nobody was told of. */
static void test_master_isolated_with_sync(struct world *w)
{
    race(w, &(struct topology_fault){.strike = isolate_and_kill,
                                     .loses = true,
                                     .is_long = true,
                                     .sync = "1",
                                     .seconds = 14});
}

/* Leases that a master granted after the other servers had given the master up are lost. */
static void test_master_parted(struct world *w)
{
    race(w, &(struct topology_fault){
                .strike = part, .loses = true, .is_long = true, .seconds = 16});
}

static void test_master_parted_with_sync(struct world *w)
{
    race(w, &(struct topology_fault){
                .strike = part, .loses = true, .is_long = true, .sync = "1", .seconds = 16});
}

static void restart(const struct trio *trio, int server)
{
    redis_kill(trio->server[server]);
    trio_return(trio, server);
    make_user(trio->server[server]);
}

/* Each Sentinel and each replica goes and comes back, then the master after a failover. */
static void restart_all(void *topology)
{
    struct trio *trio = topology;

    for (int i = 0; i < TRIO; i++) {
        sentinel_kill(trio->sentinel[i]);
        sentinel_return(trio->sentinel[i]);
    }
    for (int i = 1; i < TRIO; i++)
        restart(trio, i);
    /* Until it knows that the replicas are back. */
    wait_until(trio_fail_over(trio), RESTART_MS);
    wait_until(trio_master(trio) != trio->server[0], RESTART_MS);
    restart(trio, 0);
}

static void test_all_restarted(struct world *w)
{
    race(w, &(struct topology_fault){.strike = restart_all, .loses = true, .seconds = 30});
}

/* --- Sentinels that lie --------------------------------------------------------------------
 */

struct liars {
    struct trio trio;
    struct sentinel *liar;
};

/* The connections go, and those that are made anew meet the liar first. */
static void cut_all(void *topology)
{
    const struct liars *liars = topology;

    redis_ok(liars->trio.server[0], "CLIENT KILL TYPE normal SKIPME yes");
    nap_ms(300);
}

static void test_lying_sentinel(struct world *w)
{
    struct liars liars = {.trio = trio_start(w)};
    struct sentinel *sentinels[TRIO] = {NULL, liars.trio.sentinel[0], liars.trio.sentinel[1]};

    /* The Sentinels replace no master that a busy machine holds up. */
    for (int i = 0; i < TRIO; i++)
        sentinel_ok(liars.trio.sentinel[i], "SENTINEL SET mymaster down-after-milliseconds %d",
                    CALM_MS);
    /* A replica is the master, it says. */
    sentinels[0] = liars.liar = sentinel_start(liars.trio.server[1], 1, CALM_MS);
    topology_race(w, sentinel_url(sentinels, TRIO), LOCKS,
                  &(struct topology_fault){.strike = cut_all, .again = true}, &liars);
    assert_int_equal(failovers_of(w->a), 0);
    assert_true(redis_int(liars.trio.server[0], "EXISTS redisson_lock_token:{race-0}") == 1);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_failover_by_hand),
        E2E_TEST(test_master_killed),
        E2E_TEST(test_master_paused),
        E2E_TEST(test_master_isolated),
        E2E_TEST(test_master_isolated_with_sync),
        E2E_TEST(test_master_parted),
        E2E_TEST(test_master_parted_with_sync),
        E2E_TEST(test_all_restarted),
        E2E_TEST(test_lying_sentinel),
    };
    struct e2e_plan plan = {.name = "topology_racer", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
