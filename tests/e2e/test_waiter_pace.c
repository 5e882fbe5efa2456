/* How often a waiter asks Redis: once or twice for what happens, and every few seconds without.
 * All of Redis has one thread; a waiter that asks without end takes it from everyone, and where
 * Redis cannot be asked it would keep the front end from all else. */
#include "counters.h"
#include "harness_session.h"
#include "multi_locks.h"

enum {
    QUIET_MAX = 20,     /* scripts in a second without events: a poll, a look for deadlocks */
    PER_EVENT_MAX = 10, /* each is three, and there are three front ends */
    EVENTS = 30,
    WAIT_MS = 6000,
    ANSWER_MS = WAIT_MS + 4000
};

/* A kind of waiter. `name` is also that of what it waits for, `lock` where it stands. */
struct kind {
    const char *name;
    const char *path;    /* below /v1/; NULL: several locks */
    const char *method;  /* of the request that waits */
    const char *make;    /* below /v1/, with PUT, before anything is taken; NULL: not needed */
    const char *take;    /* the request that leaves nothing for the waiter; NULL: not needed */
    const char *channel; /* what comes on it wakes; %s: the lease id of the waiter */
    bool wakes_by_1;     /* the message, else it is 0 */
};

static const struct kind kinds[] = {
    {.name = "lock",
     .path = "locks/lock?",
     .take = "locks/lock?ttl_ms=90000",
     .method = "PUT",
     .channel = "redisson_lock__channel:{lock}"},
    {.name = "fair",
     .path = "locks/fair?kind=fair&",
     .take = "locks/fair?kind=fair&ttl_ms=90000",
     .method = "PUT",
     .channel = "redisson_lock__channel:{fair}:%s:0"},
    {.name = "read",
     .path = "locks/read?kind=read&",
     .take = "locks/read?kind=write&ttl_ms=90000",
     .method = "PUT",
     .channel = "redisson_rwlock:{read}"},
    {.name = "write",
     .path = "locks/write?kind=write&",
     .take = "locks/write?kind=read&ttl_ms=90000",
     .method = "PUT",
     .channel = "redisson_rwlock:{write}"},
    {.name = "several",
     .method = "PUT",
     .take = "locks/several?ttl_ms=90000",
     .channel = "redisson_lock__channel:{several}"},
    {.name = "semaphore",
     .path = "semaphores/semaphore/acquire?",
     .make = "semaphores/semaphore?permits=1",
     .method = "POST",
     .channel = "redisson_sc:{semaphore}",
     .wakes_by_1 = true},
    {.name = "permit",
     .path = "permit-semaphores/permit/permit?",
     .make = "permit-semaphores/permit?permits=1",
     .take = "permit-semaphores/permit/permit?ttl_ms=90000",
     .method = "PUT",
     .channel = "redisson_sc:{permit}",
     .wakes_by_1 = true},
    {.name = "latch",
     .path = "latches/latch?",
     .make = "latches/latch?count=1",
     .method = "GET",
     .channel = "redisson_countdownlatch__channel__{latch}",
     .wakes_by_1 = true},
};

enum { KINDS = COUNT_OF(kinds) };

/* Nothing is left for whoever comes. */
static void take_all(struct world *w, const struct kind *kind)
{
    if (kind->make != NULL)
        expect_status(counter_send(w->a, "PUT", kind->make, NULL), 201);
    if (kind->take != NULL)
        expect_status(permit_send(w->a, "PUT", kind->take, token_new(w), NULL), 201);
    if (strcmp(kind->method, "POST") == 0)
        assert_true(redisson_acquire(w->redis, kind->name, 1));
}

static struct call *wait_for(struct front *fe, const struct kind *kind, const struct session *s,
                             int wait_ms)
{
    struct world *w = fe->world;
    bool has_lease = kind->path == NULL || strcmp(kind->method, "PUT") == 0;

    if (kind->path == NULL)
        return multi_call(fe, s, token_new(w), "several {several}-1 {several}-2",
                          text(w, ", \"wait_ms\": %d", wait_ms));
    return CALL(fe, .method = kind->method,
                .path = text(w, "/v1/%swait_ms=%d", kind->path, wait_ms),
                .token = has_lease ? token_new(w) : NULL,
                .headers = {has_lease ? s->header : NULL}, .timeout_ms = 65000);
}

static bool is_listed(struct world *w, const struct kind *kind)
{
    return redis_int(w->redis, "ZCARD rlockd:waiters:{%s}", kind->name) > 0;
}

/* The waiter's session is heard of, then its lease and its lock, all in one round trip:
 * whatever comes first starts an attempt, and the rest comes while that is under way. */
static void disturb(struct world *w, const struct kind *kind, const struct session *s)
{
    static const char script[] =
        "local waiter = redis.call('zrange', 'rlockd:waiters:{' .. KEYS[1] .. '}', 0, 0)[1] "
        "redis.call('publish', 'rlockd:sessions', ARGV[1]) "
        "redis.call('publish', 'rlockd:leases', (waiter or '') .. ' ' .. KEYS[1]) "
        "local channel = string.gsub(ARGV[2], '%%s', waiter or '') "
        "redis.call('publish', channel, ARGV[3]) return 1";

    redis_int(w->redis, "EVAL %s 1 %s %s %s %s", script, kind->name, s->id, kind->channel,
              kind->wakes_by_1 ? "1" : "0");
}

/* The events are over: what they have started ends by itself, soon. Returns the scripts that
 * were more than a quiet time has, since scripts_count_from_now(). */
static long expect_quiet(struct world *w, const char *what)
{
    long more = scripts_about(w->redis, NULL);
    int64_t give_up_ms = now_ms() + patience_ms(4000);

    for (;;) {
        int64_t started_ms = now_ms();
        scripts_count_from_now(w->redis);
        nap_ms(1000);
        long scripts = scripts_about(w->redis, NULL), spent_ms = now_ms() - started_ms;
        if (scripts * 1000 <= QUIET_MAX * spent_ms)
            return more;
        if (now_ms() > give_up_ms)
            FAIL("%s: %ld scripts in %ld ms in which nothing happened", what, scripts,
                 spent_ms);
        more += scripts - QUIET_MAX;
    }
}

/* While the answers of Redis are late, from before the first of them on: while it is parked,
 * while its subscription is confirmed, and during its attempts. */
static void disturb_while_slow(struct world *w, struct slow *slow, const struct kind *kind,
                               const struct session *s)
{
    for (int i = 0; i < EVENTS; i++) {
        disturb(w, kind, s);
        nap_ms(50);
        if (i == EVENTS / 2)
            proxy_set(slow->proxy, PROXY_DELAY_COMMANDS);
    }
    proxy_set(slow->proxy, PROXY_PASS);
}

/* Events with nothing between them, and the subscription lost: a few scripts for each. */
static void disturb_at_once(struct world *w, const struct kind *kind, const struct session *s)
{
    scripts_count_from_now(w->redis);
    for (int i = 0; i < EVENTS; i++)
        disturb(w, kind, s);
    assert_true(redis_int(w->redis, "CLIENT KILL TYPE pubsub") >= 1);
    long scripts = expect_quiet(w, kind->name);
    if (scripts > EVENTS * PER_EVENT_MAX)
        FAIL("%s: %ld scripts for %d events", kind->name, scripts, EVENTS);
}

static void test_each_kind_is_quiet_after_events(struct world *w)
{
    struct slow slow = slow_start(w);
    struct session s = session_new(w->a, "ttl_ms=600000");

    for (size_t i = 0; i < KINDS; i++) {
        const struct kind *kind = &kinds[i];
        struct call *call;

        take_all(w, kind);
        proxy_set(slow.proxy, PROXY_DELAY);
        call = wait_for(slow.fe, kind, &s, 50000);
        disturb_while_slow(w, &slow, kind, &s);
        expect_quiet(w, kind->name);
        disturb_at_once(w, kind, &s);
        assert_false(call_done(call));
        assert_true(is_listed(w, kind));
        call_hang_up(call);
        wait_until(!is_listed(w, kind), 3000);
    }
}

/* Sessions come and go, leases are renewed and taken away, and readers and writers wait for
 * something else. */
static void trouble_elsewhere(struct world *w, int round)
{
    struct front *fe = round % 2 ? w->a : w->b;
    struct session s = session_new(fe, "ttl_ms=60000");
    const char *lock = text(w, "elsewhere/%d", round);
    const char *token = session_hold(fe, &s, lock, NULL);

    expect_status(lock_renew(fe, lock, token, "ttl_ms=50000"), 200);
    if (round % 3 == 0)
        expect_status(force_unlock(fe, lock), 200);
    expect_status(session_end(fe, &s), 200);
}

static void test_waiters_are_quiet_after_the_trouble_of_others(struct world *w)
{
    enum { CALLS = 6, ROUNDS = 80 };
    struct slow slow = slow_start(w);
    struct session s = session_new(w->a, "ttl_ms=600000");
    struct call *calls[CALLS];

    redis_ok(w->redis, "DEL read");
    take_all(w, &kinds[2]);
    proxy_set(slow.proxy, PROXY_DELAY_COMMANDS);
    for (int i = 0; i < CALLS; i++)
        calls[i] = wait_for(slow.fe, &kinds[2], &s, 50000);
    for (int round = 0; round < ROUNDS; round++)
        trouble_elsewhere(w, round);
    proxy_set(slow.proxy, PROXY_PASS);
    expect_quiet(w, "readers");
    for (int i = 0; i < CALLS; i++)
        assert_false(call_done(calls[i]));
}

static void thaw(void *redis)
{
    redis_thaw(redis);
}

/* Redis stops answering in the midst of it: the front end lives, answers in time, and ends. */
static void test_redis_stops_in_the_midst_of_events(struct world *w)
{
    struct front *waits = front_start(w, "--redis", w->redis->url, NULL);
    struct front *stops = front_start(w, "--redis", w->redis->url, NULL);
    struct call *calls[KINDS], *others[KINDS];

    redis_ok(w->redis, "FLUSHALL");
    struct session s = session_new(w->a, "ttl_ms=60000");

    for (size_t i = 0; i < KINDS; i++) {
        take_all(w, &kinds[i]);
        calls[i] = wait_for(waits, &kinds[i], &s, WAIT_MS);
        others[i] = wait_for(stops, &kinds[i], &s, 50000);
        wait_until(is_listed(w, &kinds[i]), 5000);
    }
    nap_ms(300);
    int64_t parked_ms = now_ms();
    for (size_t i = 0; i < KINDS; i++)
        disturb(w, &kinds[i], &s);
    redis_freeze(w->redis);
    world_defer(w, thaw, w->redis);
    nap_ms(3000); /* commands are given up after 2 s */
    struct reply *r = HTTP(waits, .method = "GET", .path = "/livez", .timeout_ms = 4000);
    expect_status(r, 200);
    front_stop(stops);
    for (size_t i = 0; i < KINDS; i++) {
        r = call_await(calls[i], ANSWER_MS);
        expect_true(r, r->status == 423 || r->status == 503 || r->status == 200);
        expect_true(r, r->done_ms - parked_ms < allowed_ms(ANSWER_MS));
        expect_status(call_await(others[i], 1000), 503);
    }
    front_stop(waits);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_each_kind_is_quiet_after_events),
        E2E_TEST(test_waiters_are_quiet_after_the_trouble_of_others),
        E2E_TEST(test_redis_stops_in_the_midst_of_events),
    };
    struct e2e_plan plan = {.name = "waiter-pace", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
