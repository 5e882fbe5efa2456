/* A chaos from its start to its end, and what has to be true then. */
#include "session_chaos.h"

/* --- the dead ----------------------------------------------------------------------------- */

/* Looks at those of the buried leases whose time has come. */
static void check_dead(struct chaos *chaos)
{
    pthread_mutex_lock(&chaos->mutex);
    size_t len = chaos->dead_len;
    pthread_mutex_unlock(&chaos->mutex);
    /* In the order of their burial; those that ended well have an earlier time. */
    for (size_t i = chaos->dead_checked; i < len; i++) {
        struct chaos_dead *dead = &chaos->dead[i];

        if (dead->by_ms == 0 || now_ms() < dead->by_ms)
            continue;
        if (redis_int(chaos->redis, "HEXISTS %s %s", dead->lock, dead->holder) != 0)
            FAIL("%s still holds %s, %d ms after it had to be gone", dead->holder, dead->lock,
                 (int)(now_ms() - dead->by_ms));
        dead->by_ms = 0;
    }
    while (chaos->dead_checked < len && chaos->dead[chaos->dead_checked].by_ms == 0)
        chaos->dead_checked++;
}

void chaos_nap(struct chaos *chaos, int ms)
{
    for (int64_t end = now_ms() + ms; now_ms() < end; nap_ms(20))
        check_dead(chaos);
}

void chaos_kill_fronts(struct chaos *chaos)
{
    int first = rand_r(&chaos->seed) % CHAOS_FRONTS, second = (first + 1) % CHAOS_FRONTS;
    bool two = rand_r(&chaos->seed) % 3 == 0;

    front_kill(chaos->fronts[first]);
    chaos->kills++;
    if (two) {
        nap_ms(rand_r(&chaos->seed) % 100);
        front_kill(chaos->fronts[second]);
        chaos->kills++;
    }
    chaos_nap(chaos, rand_r(&chaos->seed) % 700);
    front_return(chaos->fronts[first], chaos->flags);
    if (two)
        front_return(chaos->fronts[second], chaos->flags);
    chaos_nap(chaos, rand_r(&chaos->seed) % 300);
}

/* --- the end ------------------------------------------------------------------------------ */

static void report(const struct chaos *chaos, long grants)
{
    print_message("%ld kills of front ends, %ld strikes; %ld sessions, %ld ended, %ld died; "
                  "%ld grants, %ld keep-alives, %ld asked again, %ld confirmed\n",
                  chaos->kills, chaos->strikes, (long)chaos->births, (long)chaos->ends,
                  (long)chaos->deaths, grants, (long)chaos->keep_alives, (long)chaos->retries,
                  (long)chaos->confirmed);
    print_message("%ld leases lapsed, %ld overlaps after a deadline or a failover; the machine "
                  "was late by %ld ms\n",
                  (long)chaos->lapses, (long)chaos->overlaps, (long)late_ms());
    if (chaos->plan->recent_ms > 0)
        print_message("%zu failovers; told as lost: %ld leases, %ld sessions\n",
                      (size_t)chaos->losses_len, (long)chaos->leases_lost,
                      (long)chaos->sessions_lost);
    if (chaos->violations > 0)
        FAIL("%d violations; the first: %s", chaos->violations, chaos->first_trouble);
}

/* Of what comes by chance, and is rare on a busy machine. */
static bool has_shown_enough(const struct chaos *chaos)
{
    return chaos->deaths > 0 && chaos->ends > 0 && chaos->retries > 0 &&
           chaos->dead_len >= CHAOS_OWN_LOCKS;
}

static void expect_much(const struct chaos *chaos, long grants, int seconds)
{
    int scale = (int)patience_ms(1);

    assert_true(grants * scale >= 10 * seconds);
    assert_true(chaos->keep_alives * scale >= 20 * seconds);
    assert_true(has_shown_enough(chaos));
}

static bool is_without(struct redis *redis, const char *prefix)
{
    return json_array_size(redis_keys(redis, prefix)) == 0;
}

static void check_all(struct chaos *chaos, int seconds)
{
    const struct chaos_plan *plan = chaos->plan;
    int gone_ms = plan->session_ms + plan->timeout_ms + plan->slack_ms;
    struct redis *redis = chaos->redis;
    long grants = 0;

    for (int i = 0; i < CHAOS_SHARED_LOCKS; i++) {
        const struct chaos_arena *arena = &chaos->arenas[i];
        grants += arena->grants;
        if (chaos->overlaps == 0 && arena->counter != arena->grants)
            FAIL("shared-%d: counted %ld of %ld", i, arena->counter, (long)arena->grants);
    }
    report(chaos, grants);
    expect_much(chaos, grants, seconds);
    /* Nobody keeps anything alive now: sooner or later all of it is free. */
    wait_until(is_without(redis, "own-") && is_without(redis, "shared-"), gone_ms);
    nap_ms(chaos_timeout_ms(chaos));
    wait_until((check_dead(chaos), chaos->dead_checked == chaos->dead_len), gone_ms);
    wait_until(is_without(redis, "rlockd:sessions:"), plan->timeout_ms + plan->slack_ms);
    wait_until(is_without(redis, "rlockd:session-due:"), 2 * plan->timeout_ms);
}

/* --- all of it ---------------------------------------------------------------------------- */

static int number_of(const char *variable, int otherwise)
{
    const char *value = getenv(variable);

    return value != NULL ? atoi(value) : otherwise;
}

static struct chaos *chaos_new(struct world *w, const struct chaos_plan *plan,
                               struct redis *redis, void *topology)
{
    struct chaos *chaos = calloc(1, sizeof(*chaos));

    assert_non_null(chaos);
    world_defer(w, free, chaos);
    chaos->plan = plan;
    chaos->world = w;
    chaos->redis = redis;
    chaos->topology = topology;
    chaos->seed = (unsigned)number_of("CHAOS_SEED", (int)now_ms());
    print_message("CHAOS_SEED=%u\n", chaos->seed);
    pthread_mutex_init(&chaos->mutex, NULL);
    for (int i = 0; i < CHAOS_SHARED_LOCKS; i++)
        pthread_mutex_init(&chaos->arenas[i].mutex, NULL);
    chaos->flags[0] = "--watchdog-timeout-ms";
    chaos->flags[1] = text(w, "%d", chaos_timeout_ms(chaos));
    for (int i = 0; i < CHAOS_FRONTS; i++) {
        chaos->fronts[i] = front_start(w, "--redis", redis->url, chaos->flags[0],
                                       chaos->flags[1], NULL);
        chaos->ports[i] = chaos->fronts[i]->port;
    }
    return chaos;
}

/* Clients that are joined before what they use is freed, also where the test fails meanwhile.
 */
struct crowd {
    struct chaos *chaos;
    struct chaos_client *clients;
    int len;
};

static void crowd_join(void *thing)
{
    struct crowd *crowd = thing;

    crowd->chaos->over = true;
    for (int i = 0; i < crowd->len; i++)
        pthread_join(crowd->clients[i].thread, NULL);
    crowd->len = 0;
}

static struct crowd *crowd_start(struct world *w, struct chaos *chaos)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    int len = number_of("CHAOS_CLIENTS", chaos->plan->clients);

    assert_non_null(crowd);
    world_defer(w, free, crowd);
    crowd->chaos = chaos;
    crowd->clients = calloc((size_t)len, sizeof(*crowd->clients));
    assert_non_null(crowd->clients);
    world_defer(w, free, crowd->clients);
    world_defer(w, crowd_join, crowd);
    for (int i = 0; i < len; i++) {
        crowd->clients[i] = (struct chaos_client){
            .chaos = chaos, .number = i, .seed = chaos->seed + (unsigned)i * 7919};
        assert_int_equal(pthread_create(&crowd->clients[i].thread, NULL, chaos_client_run,
                                        &crowd->clients[i]),
                         0);
        crowd->len++;
    }
    return crowd;
}

void chaos_run(struct world *w, const struct chaos_plan *plan, struct redis *redis,
               void *topology)
{
    struct chaos *chaos = chaos_new(w, plan, redis, topology);
    struct crowd *crowd = crowd_start(w, chaos);
    int seconds = number_of("CHAOS_SECONDS", plan->seconds);

    int64_t end = now_ms() + 1000L * seconds, last = end + 4000L * seconds;
    while ((now_ms() < end || (!has_shown_enough(chaos) && now_ms() < last)) &&
           chaos->violations == 0) {
        plan->strike(chaos);
        chaos->strikes++;
    }
    crowd_join(crowd);
    check_all(chaos, seconds);
}
