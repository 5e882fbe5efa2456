/* Fair locks on two front ends: first come, first served; places that outlive a request; and
 * who leaves, whichever way, leaves the queue. */
#include "fair.h"

#include <unistd.h>

enum { SOON_MS = 1000, CROWD = 12 };

static void expect_soon(struct reply *r, int64_t since)
{
    expect_status(r, 201);
    expect_str(r, "kind", "fair");
    if (r->done_ms - since > allowed_ms(SOON_MS))
        FAIL("granted only after %lld ms", (long long)(r->done_ms - since));
}

static void test_first_come_first_served(struct world *w)
{
    struct front *const fronts[] = {w->a, w->b};
    const char *tokens[CROWD], *holder = fair_hold(w->b, "crowd", NULL);
    struct call *calls[CROWD];
    json_int_t fence = fence_of(w->a, "crowd");

    for (int i = 0; i < CROWD; i++) {
        tokens[i] = token_new(w);
        calls[i] = fair_park(fronts[i % 3 == 0], "crowd", tokens[i],
                             "wait_ms=50000&ttl_ms=60000");
    }
    for (int i = 0; i < CROWD; i++) {
        int64_t freed = now_ms();

        expect_status(lock_release(fronts[i & 1], "crowd", holder), 200);
        struct reply *r = call_await(calls[i], 10000);
        expect_soon(r, freed);
        expect_between(r, "fencing_token", fence + 1, INT64_MAX);
        fence = reply_int(r, "fencing_token");
        for (int other = i + 1; other < CROWD; other++)
            assert_false(call_done(calls[other]));
        assert_int_equal(queue_len(w->redis, "crowd"), CROWD - i - 1);
        holder = tokens[i];
    }
    expect_status(lock_release(w->a, "crowd", holder), 200);
    expect_no_queue(w->redis, "crowd");
    assert_false(redis_has(w->redis, fair_times(w, "crowd")));
    assert_int_equal(waiter_count(w->a, "crowd"), 0);
}

static void test_busy_and_free(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = fair_put(w->a, "plain", token, "note=mine");

    expect_status(r, 201);
    expect_str(r, "kind", "fair");
    expect_status(fair_put(w->b, "plain", token, NULL), 200);
    expect_str(lock_put(w->b, "plain", token, "kind=fair"), "kind", "fair");
    r = fair_put(w->b, "plain", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.note", "mine");
    expect_no_queue(w->redis, "plain"); /* who does not wait takes no place */
    assert_null(fair_visit(w, "plain"));
    r = lock_look(w->b, "plain");
    expect_str(r, "kind", "fair");
    expect_int(r, "waiter_count", 0);
    expect_status(lock_renew(w->b, "plain", token, "ttl_ms=50000"), 200);
    expect_status(lock_release(w->b, "plain", token), 200);
    expect_status(lock_release(w->a, "plain", token), 200);
    expect_problem(fair_put(w->b, "plain", token, NULL), 410, "lease-ended");
    assert_false(redis_has(w->redis, "plain"));
}

/* Turned away for now: its place waits for the next request with the token, elsewhere too. */
static void test_a_place_outlives_its_request(struct world *w)
{
    const char *holder = fair_hold(w->a, "place", NULL);
    const char *first = token_new(w), *second = token_new(w);
    struct call *call;

    expect_problem(fair_put(w->a, "place", first, "wait_ms=200"), 423, "locked");
    assert_int_equal(queue_len(w->redis, "place"), 1);
    call = fair_park(w->a, "place", second, "wait_ms=30000");
    expect_problem(fair_put(w->b, "place", first, NULL), 423, "locked");
    expect_problem(fair_put(w->b, "place", first, "wait_ms=100"), 423, "locked");
    expect_queue(w->redis, "place", fair_place(w->b, "place", first),
                 fair_place(w->b, "place", second));
    /* It is the first one's turn also while nobody waits there. */
    expect_status(lock_release(w->b, "place", holder), 200);
    stays_true(!call_done(call), 300);
    struct reply *r = fair_put(w->a, "place", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_between(r, "remaining_ms", 1, PLACE_MS);
    expect_status(fair_put(w->b, "place", first, "ttl_ms=60000"), 201);
    assert_int_equal(queue_len(w->redis, "place"), 1);
    int64_t freed = now_ms();
    expect_status(lock_release(w->a, "place", first), 200);
    expect_soon(call_await(call, 5000), freed);
    expect_no_queue(w->redis, "place");
}

/* DELETE gives a place up at once, a hanging request with the token is told. */
static void test_a_place_is_given_up(struct world *w)
{
    const char *holder = fair_hold(w->a, "give-up", NULL), *first = token_new(w);
    const char *second = token_new(w);
    struct call *waits, *next;

    expect_problem(fair_put(w->a, "give-up", first, "wait_ms=100"), 423, "locked");
    waits = fair_park(w->b, "give-up", second, "wait_ms=30000");
    next = fair_park(w->b, "give-up", token_new(w), "wait_ms=30000");
    expect_status(lock_release(w->a, "give-up", holder), 200);
    stays_true(!call_done(waits), 100);
    expect_status(lock_release(w->b, "give-up", first), 200);
    expect_status(call_await(waits, SOON_MS), 201);
    expect_problem(fair_put(w->a, "give-up", first, "wait_ms=100"), 410, "lease-ended");
    expect_status(lock_release(w->a, "give-up", second), 200);
    expect_status(call_await(next, SOON_MS), 201);
    waits = fair_park(w->b, "give-up", holder = token_new(w), "wait_ms=30000");
    expect_status(lock_release(w->a, "give-up", holder), 200);
    expect_problem(call_await(waits, SOON_MS), 410, "lease-ended");
    expect_no_queue(w->redis, "give-up");
}

/* The token of a POST without one is never seen by anybody: no place stays. */
static void test_a_place_that_nobody_can_ask_for(struct world *w)
{
    fair_hold(w->a, "once", NULL);
    expect_problem(http(w->a, "POST", "/v1/locks/once?kind=fair&wait_ms=200", NULL), 423,
                   "locked");
    wait_until(queue_len(w->redis, "once") == 0, SOON_MS);
    expect_problem(http(w->a, "POST", "/v1/locks/once?kind=fair", NULL), 423, "locked");
    expect_no_queue(w->redis, "once");
    assert_int_equal(redis_int(w->redis, "EXISTS %s", "rlockd:waiters:{once}"), 0);
}

/* Dead waiters of ours go at once, also the one whose turn it is: the next one is called. */
static void test_hang_ups_leave_the_queue(struct world *w)
{
    const char *holder = fair_hold(w->a, "gone", NULL), *lost = token_new(w);
    struct call *first, *third;
    struct raw *raws[2];

    first = fair_park(w->a, "gone", token_new(w), "wait_ms=30000");
    for (int i = 0; i < 2; i++) {
        raws[i] = raw_open(w->b);
        raw_text(raws[i],
                 "PUT /v1/locks/gone?kind=fair&wait_ms=30000 HTTP/1.1\r\nHost: x\r\n"
                 "Lease-Token: %s\r\n\r\n",
                 i == 0 ? lost : token_new(w));
        wait_until(queue_len(w->redis, "gone") == 2 + i, 5000);
    }
    third = fair_park(w->a, "gone", token_new(w), "wait_ms=30000");
    raw_reset(raws[0]);
    wait_until(queue_len(w->redis, "gone") == 3, SOON_MS);
    raw_shut_write(raws[1]);
    wait_until(queue_len(w->redis, "gone") == 2, SOON_MS);
    assert_int_equal(redis_int(w->redis, "ZCARD %s", fair_times(w, "gone")), 2);
    assert_int_equal(redis_int(w->redis, "ZCARD rlockd:waiters:{gone}"), 2);
    /* A place that nobody waits at is in the way of the free lock; the next one there hangs
     * up. */
    call_hang_up(first);
    wait_until(queue_len(w->redis, "gone") == 1, SOON_MS);
    const char *front = token_new(w);
    expect_problem(fair_put(w->b, "gone", front, "wait_ms=50"), 423, "locked");
    struct call *behind = fair_park(w->b, "gone", token_new(w), "wait_ms=30000");
    expect_status(lock_release(w->a, "gone", holder), 200);
    struct reply *r = call_await(third, SOON_MS);
    expect_status(r, 201);
    redis_ok(w->redis, "DEL gone"); /* without a word */
    struct call *asks = call_put(w->b, "gone", front, "kind=fair&wait_ms=30000");
    expect_status(call_await(asks, SOON_MS), 201);
    expect_status(lock_release(w->a, "gone", front), 200);
    expect_status(call_await(behind, SOON_MS), 201);
}

/* Whether the answer had reached the client before it went, nobody can tell: the next one has
 * the lock, or the client that went. */
static void test_a_called_waiter_hangs_up(struct world *w)
{
    for (int i = 0; i < 16; i++) {
        const char *lock = text(w, "called-%d", i), *holder = fair_hold(w->a, lock, NULL);
        const char *token = token_new(w);
        struct call *gone = fair_park(w->a, lock, token, "wait_ms=30000&ttl_ms=60000");
        struct call *next = fair_park(w->b, lock, token_new(w), "wait_ms=30000");
        struct call *release = CALL(w->b, .method = "DELETE", .path = lock_path(w, lock, ""),
                                    .token = holder);

        usleep((useconds_t)i * 75);
        call_hang_up(gone);
        expect_status(call_await(release, 5000), 200);
        struct patience patience = patience_of(call_await(gone, 0)->status != 201 ? SOON_MS
                                                                                  : 0);
        while (!call_done(next) && !patience_ends(&patience))
            nap_ms(2);
        if (!call_done(next)) {
            expect_str(http(w->a, "GET", lock_path(w, lock, ""), token), "lease.state", "held");
            expect_status(lock_release(w->a, lock, token), 200);
        }
        expect_status(call_await(next, SOON_MS), 201);
        expect_no_queue(w->redis, lock);
    }
}

static bool is_shared(struct world *w, const char *place)
{
    const char *record = redis_str(w->redis, "GET %s",
                                   text(w, "rlockd:lease:{two}:%.36s", place));

    if (record == NULL || strncmp(record, "waiting\n", strlen("waiting\n")) != 0)
        return false;
    record += strlen("waiting\n"); /* the attempts of other requests, or "place" */
    return record[0] != '\n' && strncmp(record, "place", strlen("place")) != 0;
}

/* Two requests with one token have one place, and one of them may go. */
static void test_two_requests_with_one_token(struct world *w)
{
    const char *holder = fair_hold(w->a, "two", NULL), *token = token_new(w);
    const char *query = "kind=fair&wait_ms=30000&ttl_ms=60000", *place;
    struct call *one = fair_park(w->a, "two", token, "wait_ms=30000&ttl_ms=60000");
    struct call *two = call_put(w->b, "two", token, query);
    struct reply *r;

    place = fair_place(w->a, "two", token);
    wait_until(is_shared(w, place), 3000);
    expect_queue(w->redis, "two", place);
    call_hang_up(one);
    wait_until(!is_shared(w, place), 3000);
    expect_queue(w->redis, "two", place);
    one = call_put(w->a, "two", token, "kind=fair&wait_ms=400&ttl_ms=60000");
    expect_problem(call_await(one, 3000), 423, "locked");
    expect_queue(w->redis, "two", place);
    one = call_put(w->a, "two", token, query);
    wait_until(is_shared(w, place), 3000);
    expect_status(lock_release(w->b, "two", holder), 200);
    r = call_await(one, SOON_MS);
    struct reply *other = call_await(two, SOON_MS);
    expect_true(r, r->status + other->status == 200 + 201);
    expect_int(r, "fencing_token", reply_int(other, "fencing_token"));
    expect_no_queue(w->redis, "two");
    /* And when both hang up, the place is gone. */
    token = token_new(w);
    one = fair_park(w->a, "two", token, "wait_ms=30000");
    two = call_put(w->b, "two", token, query);
    wait_until(is_shared(w, fair_place(w->b, "two", token)), 3000);
    call_hang_up(two);
    call_hang_up(one);
    wait_until(queue_len(w->redis, "two") == 0, SOON_MS);
}

static void test_force_unlock_calls_the_head(struct world *w)
{
    struct call *first, *second;
    int64_t freed;

    fair_hold(w->a, "force", NULL);
    first = fair_park(w->b, "force", token_new(w), "wait_ms=30000");
    second = fair_park(w->a, "force", token_new(w), "wait_ms=30000");
    freed = now_ms();
    expect_status(force_unlock(w->a, "force"), 200);
    expect_soon(call_await(first, 5000), freed);
    assert_false(call_done(second));
    freed = now_ms();
    expect_status(force_unlock(w->b, "force"), 200);
    expect_soon(call_await(second, 5000), freed);
}

/* The head sleeps as long as it was told that the lock lasts. */
static void test_the_end_of_a_lease(struct world *w)
{
    const char *holder = fair_hold(w->a, "end", NULL), *token = token_new(w);
    struct call *call = fair_park(w->b, "end", token,
                                  text(w, "wait_ms=30000&%s", ttl_of(w, 600)));
    int64_t began = now_ms();

    expect_status(lock_renew(w->a, "end", holder, "ttl_ms=400"), 200);
    expect_status(call_await(call, 400 + SOON_MS), 201);
    assert_true(now_ms() - began >= 390);
    expect_problem(lock_release(w->a, "end", holder), 410, "lease-ended");
    call = fair_park(w->a, "end", token_new(w), "wait_ms=30000");
    expect_status(call_await(call, 600 + SOON_MS), 201);
    struct reply *r = lock_release(w->a, "end", token);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "expired");
}

/* The holder of now had its place ahead of the last waiter, who was told of the end of another
 * lease only: that waiter has the lock when the holder's time is over, not at its next poll,
 * 4 s after it began to wait. `leaves`: there is one between them, who hangs up meanwhile. */
static void expect_told_of_the_end(struct world *w, const char *lock, struct front *last,
                                   bool leaves)
{
    enum { TTL_MS = 700, BEFORE_A_POLL_MS = 3300 };
    const char *holder = fair_hold(w->a, lock, NULL);
    struct call *next = fair_park(w->a, lock, token_new(w),
                                  text(w, "wait_ms=30000&ttl_ms=%d", TTL_MS));
    struct call *between = leaves ? fair_park(w->b, lock, token_new(w), "wait_ms=30000") : NULL;
    struct call *call = fair_park(last, lock, token_new(w), "wait_ms=30000");

    struct reply *release = lock_release(w->a, lock, holder);
    expect_status(release, 200);
    struct reply *r = call_await(next, 5000);
    expect_soon(r, r->sent_ms);
    if (between != NULL)
        call_hang_up(between);
    int64_t granted_ms = r->done_ms, late_before_ms = late_ms();
    r = call_await(call, 10000);
    expect_status(r, 201);
    assert_true(r->done_ms - release->sent_ms >= TTL_MS - 100);
    if (r->done_ms - granted_ms > BEFORE_A_POLL_MS + late_ms() - late_before_ms)
        FAIL("granted %lld ms after the holder", (long long)(r->done_ms - granted_ms));
}

static void test_the_next_in_line_knows_the_end(struct world *w)
{
    expect_told_of_the_end(w, "told-here", w->a, false);
    expect_told_of_the_end(w, "told-there", w->b, false);
    expect_told_of_the_end(w, "told-by-a-leaver", w->b, true);
}

/* Places of ours that last, each asked for a moment ago. */
static void fill_queue(struct world *w, const char *lock, int places)
{
    static const char script[] =
        "local now = redis.call('time')[1] * 1000 "
        "for i = 1, tonumber(ARGV[1]) do "
        "  local id = string.format('aaaaaaaa-0000-5000-8000-%012d', i) "
        "  redis.call('rpush', KEYS[1], id .. ':0') "
        "  redis.call('zadd', KEYS[2], now + 900000 + i, id .. ':0') "
        "  redis.call('zadd', KEYS[3], now + 900000, id) "
        "end return 1";

    redis_int(w->redis, "EVAL %s 3 %s %s %s %d", script, fair_queue(w, lock),
              fair_times(w, lock), text(w, "rlockd:places:{%s}", lock), places);
}

/* Answers that name no waiter do not read the queue, however long it is. */
static void test_a_long_queue_is_not_read_for_nothing(struct world *w)
{
    enum { PLACES = 300, ROUNDS = 5, CALLS_MAX = 4 * ROUNDS * 10 };
    static const char *const commands[] = {"lrange", "zscore", "get"};
    long long before[COUNT_OF(commands)];

    fair_hold(w->a, "queued", NULL);
    json_int_t fence = reply_int(lock_look(w->a, "queued"), "fencing_token");
    const char *check = lock_path(w->a->world, "queued",
                                  text(w, "/fencing-tokens/%lld", (long long)fence));
    fill_queue(w, "queued", PLACES);
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        before[i] = redis_calls(w->redis, commands[i]);
    for (int i = 0; i < ROUNDS; i++) {
        expect_status(fair_put(w->b, "queued", token_new(w), NULL), 423);
        expect_status(http(w->b, "GET", check, NULL), 200);
        expect_status(http(w->b, "GET", "/v1/locks?prefix=queued", NULL), 200);
        /* The wait, short as it is, takes a place behind all of them. */
        expect_status(fair_put(w->b, "queued", token_new(w), "wait_ms=50"), 423);
    }
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        long long calls = redis_calls(w->redis, commands[i]) - before[i];
        if (calls > (i == 0 ? 0 : CALLS_MAX))
            FAIL("%lld times %s for %d answers", calls, commands[i], 4 * ROUNDS);
    }
    expect_int(lock_look(w->a, "queued"), "waiter_count", PLACES + ROUNDS);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_first_come_first_served),
        E2E_TEST(test_busy_and_free),
        E2E_TEST(test_a_place_outlives_its_request),
        E2E_TEST(test_a_place_is_given_up),
        E2E_TEST(test_a_place_that_nobody_can_ask_for),
        E2E_TEST(test_hang_ups_leave_the_queue),
        E2E_TEST(test_a_called_waiter_hangs_up),
        E2E_TEST(test_two_requests_with_one_token),
        E2E_TEST(test_force_unlock_calls_the_head),
        E2E_TEST(test_the_end_of_a_lease),
        E2E_TEST(test_the_next_in_line_knows_the_end),
        E2E_TEST(test_a_long_queue_is_not_read_for_nothing),
    };
    struct e2e_plan plan = {.name = "fair", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
