/* How many scripts a wait costs Redis: the attempt that registers the waiter, and the grant,
 * which may be the release before. Counted by Redis' slow log, which notes every command. */
#include "counters.h"
#include "fair.h"
#include "multi_locks.h"

enum { TURNS = 8, LOG_MAX = 4096, STRAY = 2 /* a poll, a subscription that had to be new */ };

struct kind {
    const char *name, *make, *path; /* below /v1/ */
    int handed_over; /* of two turns on one front end, at least: what has no queue in Redis is
                        everybody's after 50 ms */
};

static const struct kind kinds[] = {
    {.name = "cost-lock", .path = "locks/cost-lock?", .handed_over = 1},
    {.name = "cost-fair", .path = "locks/cost-fair?kind=fair&", .handed_over = 2},
    {.name = "cost-write", .path = "locks/cost-write?kind=write&", .handed_over = 1},
    {.name = "cost-permit",
     .make = "permit-semaphores/cost-permit?permits=1",
     .path = "permit-semaphores/cost-permit/permit?",
     .handed_over = 1},
};

static void count_from_now(struct world *w)
{
    redis_ok(w->redis, "CONFIG SET slowlog-max-len %d", LOG_MAX);
    redis_ok(w->redis, "CONFIG SET slowlog-log-slower-than 0");
    redis_ok(w->redis, "SLOWLOG RESET");
}

/* Scripts since then whose first key is this. */
static int scripts_about(struct world *w, const char *key)
{
    redisReply *log = redis_do(w->redis, "SLOWLOG GET %d", LOG_MAX);
    int count = 0;

    for (size_t i = 0; i < log->elements; i++) {
        const redisReply *entry = log->element[i];
        const redisReply *words = entry->elements > 3 ? entry->element[3] : NULL;
        if (words != NULL && words->elements > 3 &&
            strcasecmp(words->element[0]->str, "evalsha") == 0 &&
            strcmp(words->element[3]->str, key) == 0)
            count++;
    }
    return count;
}

static struct call *take(struct front *fe, const struct kind *kind, const char *token)
{
    return CALL(fe, .method = "PUT",
                .path = text(fe->world, "/v1/%swait_ms=30000&ttl_ms=60000", kind->path),
                .token = token, .timeout_ms = 40000);
}

static void give(struct front *fe, const struct kind *kind, const char *token)
{
    const char *path = text(fe->world, "/v1/%s", kind->path);
    size_t len = strcspn(path, "?");

    expect_status(http(fe, "DELETE", text(fe->world, "%.*s", (int)len, path), token), 200);
}

static bool is_listed(struct world *w, const struct kind *kind)
{
    return redis_int(w->redis, "ZCARD rlockd:waiters:{%s}", kind->name) == 1;
}

/* One after the other: each waits at `waits`, and the one before releases at `releases`. */
static int chain(struct front *waits, struct front *releases, const struct kind *kind)
{
    struct world *w = waits->world;
    const char *holder = token_new(w);

    expect_status(call_await(take(waits, kind, holder), 5000), 201);
    for (int i = 0; i <= TURNS; i++) {
        const char *next = token_new(w);
        struct call *call = take(waits, kind, next);

        wait_until(is_listed(w, kind), 5000);
        nap_ms(30); /* its subscription is there, too */
        give(releases, kind, holder);
        expect_status(call_await(call, 5000), 201);
        holder = next;
        if (i == 0)
            count_from_now(w); /* the channel of the object is subscribed to */
    }
    int scripts = scripts_about(w, kind->name);
    give(waits, kind, holder);
    return scripts;
}

static void test_a_wait_costs_two_scripts(struct world *w)
{
    skip_on_masters(w); /* counts what one server is sent */
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const struct kind *kind = &kinds[i];

        if (kind->make != NULL)
            expect_status(counter_send(w->a, "PUT", kind->make, NULL), 201);
        int apart = chain(w->a, w->b, kind), together = chain(w->a, w->a, kind);
        print_message("%s: %d scripts for %d turns; on one front end %d\n", kind->name, apart,
                      TURNS, together);
        /* The attempt that registers, the release, the grant. */
        assert_in_range(apart, 3 * TURNS, 3 * TURNS + STRAY);
        assert_in_range(together, 2 * TURNS, 3 * TURNS - kind->handed_over * TURNS / 2 + STRAY);
    }
}

/* A reader behind a writer, and a waiter for two locks, of which one is held. The names of a
 * set are kept by a script of their own, whether the request waits or not. */
static struct call *read_or_take_both(struct front *fe, bool reads, const char *token)
{
    if (reads)
        return call_put(fe, "cost-{read}", token, "kind=read&wait_ms=30000&ttl_ms=60000");
    return multi_call(fe, NULL, token, "cost-{set} other-{set}", ", \"wait_ms\": 30000");
}

static void test_a_wait_to_read_or_for_two_locks_costs_two_scripts(struct world *w)
{
    skip_on_masters(w);
    for (int reads = 0; reads <= 1; reads++) {
        const char *lock = reads ? "cost-{read}" : "cost-{set}";
        int scripts = 0;

        for (int i = 0; i < TURNS; i++) {
            const char *holder = token_new(w), *token = token_new(w);
            const char *query = reads ? "kind=write&ttl_ms=60000" : "ttl_ms=60000";

            expect_status(lock_put(w->b, lock, holder, query), 201);
            count_from_now(w);
            struct call *call = read_or_take_both(w->a, reads, token);
            wait_until(redis_int(w->redis, "ZCARD rlockd:waiters:{%s}", lock) == 1 ||
                           redis_int(w->redis, "ZCARD rlockd:waiters:%s", lock) == 1,
                       5000);
            nap_ms(30); /* its subscription is there, too */
            expect_status(lock_release(w->b, lock, holder), 200);
            expect_status(call_await(call, 5000), 201);
            int of_turn = scripts_about(w, lock);
            scripts += of_turn;
            if (reads)
                expect_status(lock_release(w->a, lock, token), 200);
            else
                expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
        }
        print_message("%s: %d scripts for %d turns\n", lock, scripts, TURNS);
        /* The attempt that registers, the release, the grant. After a new subscription the
         * waiter tries once more. */
        assert_in_range(scripts, 3 * TURNS, 3 * TURNS + 1 + STRAY);
    }
}

/* Waiters of a lock that is held for long: of a plain lock one of them looks now and then, of a
 * fair lock each, which keeps its place by that. */
static void test_waiters_of_a_held_lock_poll_seldom(struct world *w)
{
    enum { KINDS = 2, CROWD = 8, SECONDS = 13 };
    const char *holders[KINDS];
    struct call *calls[KINDS][CROWD];

    skip_on_masters(w);
    for (int i = 0; i < KINDS; i++) {
        holders[i] = token_new(w);
        expect_status(call_await(take(w->a, &kinds[i], holders[i]), 5000), 201);
        for (int j = 0; j < CROWD; j++)
            calls[i][j] = take(w->a, &kinds[i], token_new(w));
        wait_until(waiter_count(w->a, kinds[i].name) == CROWD, 5000);
    }
    nap_ms(500); /* their subscriptions are there, too */
    int64_t begun_ms = now_ms();
    count_from_now(w);
    nap_ms(SECONDS * 1000);
    for (int i = 0; i < KINDS; i++) {
        int polls = scripts_about(w, kinds[i].name);
        int most = (int)((now_ms() - begun_ms) / 4000 + 1) * (i == 0 ? 1 : CROWD);

        print_message("%s: %d polls by %d waiters\n", kinds[i].name, polls, CROWD);
        assert_in_range(polls, 1, most);
    }
    for (int i = 0; i < KINDS; i++) {
        for (int j = 0; j < CROWD; j++)
            call_hang_up(calls[i][j]);
        wait_until(waiter_count(w->a, kinds[i].name) == 0, 5000);
        give(w->a, &kinds[i], holders[i]);
    }
}

/* A release wakes one waiter of each front end that has one. */
static void test_a_release_wakes_few(struct world *w)
{
    enum { CROWD = 12 };
    const struct kind *kind = &kinds[0];
    const char *holder = token_new(w);

    expect_status(lock_put(w->a, kind->name, holder, "ttl_ms=60000"), 201);
    struct call *there = take(w->b, kind, token_new(w));
    wait_until(waiter_count(w->a, kind->name) == 1, 5000);
    call_hang_up(there); /* its front end still listens */
    wait_until(waiter_count(w->a, kind->name) == 0, 5000);
    for (int i = 0; i < CROWD; i++)
        take(w->a, kind, token_new(w));
    wait_until(waiter_count(w->a, kind->name) == CROWD, 5000);
    nap_ms(100);
    count_from_now(w);
    expect_status(lock_release(w->b, kind->name, holder), 200);
    wait_until(redis_has(w->redis, kind->name), 5000);
    nap_ms(300);
    /* The look of redis_has() is no script; a poll may have come in between. */
    assert_in_range(scripts_about(w, kind->name), 2, 2 + STRAY);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_a_wait_costs_two_scripts),
        E2E_TEST(test_a_wait_to_read_or_for_two_locks_costs_two_scripts),
        E2E_TEST(test_waiters_of_a_held_lock_poll_seldom),
        E2E_TEST(test_a_release_wakes_few),
    };
    struct e2e_plan plan = {.name = "wait-costs", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
