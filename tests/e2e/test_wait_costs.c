/* How many scripts a wait costs Redis: the attempt that registers the waiter, and the grant,
 * which may be the release before; and which workers a release wakes. Counted by Redis' slow
 * log, which notes every command. */
#include "counters.h"
#include "fair.h"
#include "harness_session.h"
#include "multi_locks.h"
#include "sentinel.h"

enum { TURNS = 8, STRAY = 2 /* a poll, a subscription that had to be new */ };

/* An object of a kind that is waited for: /v1/FOLDER/NAME and the rest. */
struct kind {
    const char *name, *folder, *rest;
    int handed_over; /* of two turns on one front end, at least: what has no queue in Redis is
                        everybody's after 50 ms */
};

static const struct kind kinds[] = {
    {"cost-lock", "locks", "?", 1},
    {"cost-fair", "locks", "?kind=fair&", 2},
    {"cost-write", "locks", "?kind=write&", 1},
    {"cost-permit", "permit-semaphores", "/permit?", 1},
};

/* A semaphore of one permit; locks need nothing. */
static void make(struct front *fe, const struct kind *kind)
{
    if (strcmp(kind->folder, "locks") != 0)
        expect_status(counter_send(fe, "PUT",
                                   text(fe->world, "%s/%s?permits=1", kind->folder, kind->name),
                                   NULL),
                      201);
}

static const char *take_path(struct world *w, const struct kind *kind)
{
    return text(w, "/v1/%s/%s%swait_ms=30000&ttl_ms=60000", kind->folder, kind->name,
                kind->rest);
}

static const char *give_path(struct world *w, const struct kind *kind)
{
    return text(w, "/v1/%s/%s%.*s", kind->folder, kind->name, (int)strcspn(kind->rest, "?"),
                kind->rest);
}

static struct call *take(struct front *fe, const struct kind *kind, const char *token)
{
    return CALL(fe, .method = "PUT", .path = take_path(fe->world, kind), .token = token,
                .timeout_ms = 40000);
}

static void give(struct front *fe, const struct kind *kind, const char *token)
{
    expect_status(http(fe, "DELETE", give_path(fe->world, kind), token), 200);
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
        nap_ms((int)patience_ms(30)); /* its subscription is there, too */
        give(releases, kind, holder);
        expect_status(call_await(call, 5000), 201);
        holder = next;
        if (i == 0)
            scripts_count_from_now(w->redis); /* the channel of the object is subscribed to */
    }
    int scripts = scripts_about(w->redis, kind->name);
    give(waits, kind, holder);
    return scripts;
}

static void test_a_wait_costs_two_scripts(struct world *w)
{
    skip_on_masters(w); /* counts what one server is sent */
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const struct kind *kind = &kinds[i];

        make(w->a, kind);
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
            scripts_count_from_now(w->redis);
            struct call *call = read_or_take_both(w->a, reads, token);
            wait_until(redis_int(w->redis, "ZCARD rlockd:waiters:{%s}", lock) == 1 ||
                           redis_int(w->redis, "ZCARD rlockd:waiters:%s", lock) == 1,
                       5000);
            nap_ms((int)patience_ms(30)); /* its subscription is there, too */
            expect_status(lock_release(w->b, lock, holder), 200);
            expect_status(call_await(call, 5000), 201);
            int of_turn = scripts_about(w->redis, lock);
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
    scripts_count_from_now(w->redis);
    nap_ms(SECONDS * 1000);
    for (int i = 0; i < KINDS; i++) {
        int polls = scripts_about(w->redis, kinds[i].name);
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
    scripts_count_from_now(w->redis);
    expect_status(lock_release(w->b, kind->name, holder), 200);
    wait_until(redis_has(w->redis, kind->name), 5000);
    nap_ms(300);
    /* The look of redis_has() is no script; a poll may have come in between. */
    assert_in_range(scripts_about(w->redis, kind->name), 2, 2 + STRAY);
}

/* An owner comes in again while others wait for its lock. None of its session hears of that but
 * its own waiters for this lock, and here it has none. */
static void test_a_grant_to_an_owner_costs_its_session_nothing(struct world *w)
{
    enum { GRANTS = 20, OTHERS = 6 };
    struct session s = session_new(w->a, NULL);

    skip_on_masters(w); /* counts what one server is sent */
    session_hold(w->a, &s, "cost-owner", "owner=me&ttl_ms=60000");
    for (int i = 0; i < OTHERS; i++)
        session_hold(w->a, &s, text(w, "cost-owner-%d", i), "ttl_ms=60000");
    take(w->b, &(struct kind){"cost-owner", "locks", "?", 0}, token_new(w));
    session_call_put(w->a, &s, "cost-owner", token_new(w), "owner=you&wait_ms=30000");
    for (int i = 0; i < OTHERS; i++)
        session_call_put(w->a, &s, text(w, "cost-owner-%d", i), token_new(w),
                         "owner=me&wait_ms=30000");
    wait_until(waiter_count(w->a, "cost-owner") == 2, 5000);
    wait_until(waiter_count(w->a, text(w, "cost-owner-%d", OTHERS - 1)) == 1, 5000);
    keep_alive_park(w->a, &s, 14000);
    nap_ms((int)patience_ms(30)); /* their subscriptions are there, too */
    scripts_count_from_now(w->redis);
    for (int i = 0; i < GRANTS; i++) {
        const char *token = session_hold(w->a, &s, "cost-owner", "owner=me&ttl_ms=60000");

        expect_status(lock_release(w->a, "cost-owner", token), 200);
    }
    nap_ms(100);
    int scripts = scripts_about(w->redis, NULL);
    print_message("%d scripts for %d grants and releases\n", scripts, GRANTS);
    /* The note of a grant in its session, the grant, the release, and what is taken back there;
     * besides, the waiters' notes and polls. */
    assert_in_range(scripts, 2 * GRANTS, 4 * GRANTS + 4 * OTHERS);
}

/* ---- which workers a release wakes ---- */

enum {
    WORKERS_MAX = 4,
    EACH = 2,        /* waiters on each worker that has any: those of the first half */
    SPARE_MAX = 100, /* connections to one worker that no client uses yet */
    ROUND_MS = 1900, /* the channel of a waiter that has gone is listened to for 2 s */
    ROUNDS_MAX = 20,
};

/* The workers of one front end, told from each other by their connections to Redis. */
struct workers {
    struct world *w;
    struct redis *redis;
    struct front *fe, *other; /* `other`: another front end */
    int count, found;
    char address[WORKERS_MAX][64];
    struct raw *spare[WORKERS_MAX][SPARE_MAX];
    int spares[WORKERS_MAX];
};

enum releaser { BY_FRONT_END, BY_WORKER_WITH_WAITERS, BY_WORKER_WITHOUT, RELEASERS };

static const char *const releasers[] = {"another front end", "a worker with waiters",
                                        "a worker without"};

/* The clients that wait in a round, and the scripts that the release cost. */
struct round {
    struct workers *workers;
    struct kind kind;
    enum releaser by;
    const char *holder;
    struct raw *clients[WORKERS_MAX * EACH];
    int len, all, each[WORKERS_MAX];
    bool is_handed_over;
};

static void ask(struct raw *client, const char *method, const char *path, const char *token)
{
    raw_text(client,
             "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
             "Lease-Token: %s\r\n\r\n",
             method, path, token);
}

/* Opens a connection, and asks its worker for something that needs a script. */
static void open_spare(struct workers *workers)
{
    struct raw *client = raw_open(workers->fe);
    const char *address = NULL;
    int i = 0;

    scripts_count_from_now(workers->redis);
    ask(client, "DELETE", "/v1/locks/cost-whose", token_new(workers->fe->world));
    assert_int_equal(raw_reply(client, 5000)->status, 410);
    assert_int_equal(scripts_of(workers->redis, NULL, "cost-whose", &address), 1);
    while (i < workers->found && strcmp(workers->address[i], address) != 0)
        i++;
    if (i == workers->found) {
        assert_true(i < workers->count);
        snprintf(workers->address[workers->found++], sizeof(workers->address[0]), "%s",
                 address);
    }
    assert_true(workers->spares[i] < SPARE_MAX);
    workers->spare[i][workers->spares[i]++] = client;
}

static struct raw *connect_to(struct workers *workers, int worker)
{
    while (workers->spares[worker] == 0)
        open_spare(workers);
    return workers->spare[worker][--workers->spares[worker]];
}

static void await_waiters(const struct round *round, int count)
{
    wait_until(redis_int(round->workers->redis, "ZCARD rlockd:waiters:{%s}",
                         round->kind.name) == count,
               5000);
}

static struct raw *wait_at(struct round *round, int worker, int position)
{
    struct workers *workers = round->workers;
    struct raw *client = connect_to(workers, worker);

    ask(client, "PUT", take_path(workers->w, &round->kind), token_new(workers->w));
    await_waiters(round, position);
    return client;
}

/* Until the waiters' subscriptions are there, and the attempts that follow are over. */
static void settle(const struct round *round)
{
    struct redis *redis = round->workers->redis;
    int before = -1, now = 0;

    while (before != now) {
        before = now;
        nap_ms(150);
        now = scripts_about(redis, round->kind.name);
    }
}

static void release(struct round *round)
{
    struct workers *workers = round->workers;
    const struct kind *kind = &round->kind;
    bool has_waiters = round->by == BY_WORKER_WITH_WAITERS;

    if (round->by == BY_FRONT_END) {
        scripts_count_from_now(workers->redis);
        give(workers->other, kind, round->holder);
        return;
    }
    struct raw *client = connect_to(workers, has_waiters ? 0 : workers->count - 1);
    scripts_count_from_now(workers->redis);
    ask(client, "DELETE", give_path(workers->w, kind), round->holder);
    assert_int_equal(raw_reply(client, 5000)->status, 200);
}

static void count_scripts(struct round *round)
{
    struct workers *workers = round->workers;

    round->all = scripts_about(workers->redis, round->kind.name);
    for (int i = 0; i < workers->count; i++)
        round->each[i] = scripts_of(workers->redis, workers->address[i], round->kind.name,
                                    NULL);
}

/* Half of the workers have waiters, and the last worker still listens to the channel of a
 * waiter that has gone. False: the round took so long that it counts for nothing. */
static bool run_round(struct round *round)
{
    struct workers *workers = round->workers;
    int64_t begun_ms = now_ms();
    double handed_over = front_metric(workers->fe, "rlockd_hand_overs_total", NULL);

    round->holder = token_new(workers->w);
    expect_status(call_await(take(workers->other, &round->kind, round->holder), 5000), 201);
    raw_reset(wait_at(round, workers->count - 1, 1));
    await_waiters(round, 0);
    for (round->len = 0; round->len < workers->count / 2 * EACH; round->len++) {
        int i = round->len;

        round->clients[i] = wait_at(round, i % (workers->count / 2), i + 1);
    }
    settle(round);
    release(round);
    await_waiters(round, round->len - 1);
    nap_ms(200);
    count_scripts(round);
    bool is_quick = now_ms() - begun_ms < ROUND_MS;
    round->is_handed_over = front_metric(workers->fe, "rlockd_hand_overs_total", NULL) >
                            handed_over;
    for (int i = 0; i < round->len; i++)
        raw_reset(round->clients[i]);
    await_waiters(round, 0);
    return is_quick;
}

/* At most one waiter of each worker that has waiters tries, and none elsewhere: of a fair lock
 * the head alone. A release that hands over is the only script, the waiter's worker's. */
static void check_round(const struct round *round)
{
    const struct workers *workers = round->workers;
    int with_waiters = workers->count / 2, woken = 0;

    for (int i = 0; i < workers->count; i++)
        print_message(" %d", round->each[i]);
    print_message(" of %d scripts of %d workers: %s, released by %s%s\n", round->all,
                  workers->count, round->kind.name, releasers[round->by],
                  round->is_handed_over ? ", handed over" : "");
    for (int i = 0; i < workers->count; i++) {
        bool releases = !round->is_handed_over &&
                        ((round->by == BY_WORKER_WITH_WAITERS && i == 0) ||
                         (round->by == BY_WORKER_WITHOUT && i == workers->count - 1));
        int attempts = round->each[i] - releases;

        assert_in_range(attempts, 0, i < with_waiters);
        woken += attempts;
    }
    assert_in_range(woken, 1, with_waiters);
    assert_int_equal(round->all, woken + !round->is_handed_over);
    if (round->is_handed_over || strcmp(round->kind.rest, "?kind=fair&") == 0)
        assert_int_equal(woken, 1);
    if (round->by == BY_WORKER_WITH_WAITERS && round->is_handed_over)
        assert_int_equal(round->each[0], 1);
    assert_true(round->by != BY_FRONT_END || !round->is_handed_over);
    /* Workers do not tell each other of waiters of read/write locks: while other workers
     * listen, the release is published to all. */
    if (round->by != BY_FRONT_END && strcmp(round->kind.rest, "?kind=write&") != 0)
        assert_true(round->is_handed_over);
}

static void check_workers(struct world *w, struct redis *redis, const char *url, int count)
{
    struct workers *workers = calloc(1, sizeof(*workers));

    assert_non_null(workers);
    world_defer(w, free, workers);
    *workers = (struct workers){.w = w, .redis = redis, .count = count};
    workers->fe = front_start(w, "--redis", url, "--workers", text(w, "%d", count), NULL);
    workers->other = front_start(w, "--redis", url, NULL);
    for (size_t i = 0; i < COUNT_OF(kinds) * RELEASERS; i++) {
        struct round round = {.workers = workers, .by = i % RELEASERS};
        bool counts = false;

        for (int tries = 0; !counts && tries < ROUNDS_MAX; tries++) {
            round.kind = kinds[i / RELEASERS];
            round.kind.name = text(w, "%s-%d-%zu-%d", round.kind.name, count, i, tries);
            make(workers->other, &round.kind);
            counts = run_round(&round);
        }
        if (counts)
            check_round(&round);
        else
            print_message("%s: the machine is too slow to tell\n", round.kind.name);
    }
}

static void test_a_release_wakes_one_waiter_of_a_worker(struct world *w)
{
    skip_on_masters(w); /* a Redis of its own, by TCP, where clients have addresses */
    struct redis *redis = redis_start_tcp(w, NULL);
    const char *url = redis->tls_port != 0 ? redis->url
                                           : text(w, "redis://%s:%d", redis->host, redis->port);

    for (int count = 2; count <= WORKERS_MAX; count += 2)
        check_workers(w, redis, url, count);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_a_wait_costs_two_scripts),
        E2E_TEST(test_a_wait_to_read_or_for_two_locks_costs_two_scripts),
        E2E_TEST(test_waiters_of_a_held_lock_poll_seldom),
        E2E_TEST(test_a_release_wakes_few),
        E2E_TEST(test_a_grant_to_an_owner_costs_its_session_nothing),
        E2E_TEST(test_a_release_wakes_one_waiter_of_a_worker),
    };
    struct e2e_plan plan = {.name = "wait-costs", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
