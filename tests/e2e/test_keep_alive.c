/* Keep-alive: heartbeat, alarm, and what the client says it holds. */
#include "multi_locks.h"

enum { AT_ONCE_MS = 1000, SOON_MS = 1500 };

static const char *lease_id(struct front *fe, const struct session *s, const char *lock)
{
    json_t *lease = lease_of(session_look(fe, s->id), lock);
    const char *id = json_string_value(json_object_get(lease, "lease_id"));

    assert_non_null(id);
    return id;
}

static void test_counts_from_its_arrival(struct world *w)
{
    int ttl_ms = (int)patience_ms(4000);
    struct session s = session_new(w->a, ttl_of(w, 4000));
    struct reply *r = keep_alive(w->b, &s, NULL);

    expect_alive(r, 0);
    expect_str(r, "session_id", s.id);
    expect_between(r, "remaining_ms", ttl_ms - 20 - (r->done_ms - r->sent_ms), ttl_ms);
    expect_between(r, "keep_alive_ms", 300, ttl_ms / 2);
    expect_bool(r, "draining", false);
    r = keep_alive(w->a, &s, "wait_ms=1500");
    expect_alive(r, 0);
    assert_in_range(r->done_ms - r->sent_ms, 1450, allowed_ms(1900));
    expect_between(r, "remaining_ms", ttl_ms - 20 - (r->done_ms - r->sent_ms), ttl_ms - 1450);
    r = keep_alive_body(w->a, &s, "{\"wait_ms\": 300}");
    expect_alive(r, 0);
    assert_in_range(r->done_ms - r->sent_ms, 250, allowed_ms(700));
    expect_alive(keep_alive_body(w->a, &s, "{}"), 0);
}

static void test_a_wait_that_is_too_long_is_no_sign_of_life(struct world *w)
{
    int most_ms = (int)patience_ms(3000) / 2;
    struct session s = session_new(w->a, ttl_of(w, 3000));
    struct call *longest;
    struct reply *r;
    json_int_t left;

    longest = keep_alive_park(w->a, &s, most_ms);
    stays_true(!call_done(longest), 100);
    call_hang_up(longest);
    r = keep_alive(w->b, &s, NULL);
    left = reply_int(r, "remaining_ms");
    nap_ms(300);
    for (int i = 0; i < 2; i++) {
        r = keep_alive(w->a, &s, i ? text(w, "wait_ms=%d", most_ms + 1) : "wait_ms=1800000");
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, "wait_ms");
    }
    expect_detail(keep_alive(w->a, &s, "wait_ms=-1"), "wait_ms");
    expect_detail(keep_alive(w->a, &s, "wait_ms=1800001"), "wait_ms");
    expect_between(session_look(w->b, s.id), "remaining_ms", 1, left - 290);
}

/* A grant whose answer was lost: its client does not name it, and it is let go in time. */
static void held_round(struct world *w, bool in_query)
{
    int ttl_ms = (int)patience_ms(1000); /* as long is a lease young, too */
    struct session s = session_new(w->a, text(w, "ttl_ms=%d", ttl_ms));
    struct session other = session_new(w->a, NULL);
    const char *lost = text(w, "held/unknown-%d", in_query);
    const char *unknown = session_hold(w->a, &s, lost, NULL);
    const char *known_lock = text(w, "held/known-%d", in_query);
    const char *shared = text(w, "held/shared-%d", in_query);
    const char *young = text(w, "held/young-%d", in_query);
    struct call *next;
    struct reply *r;

    session_hold(w->b, &s, known_lock, NULL);
    session_hold(w->b, &s, shared, "owner=me&ttl_ms=60000");
    next = session_call_put(w->b, &other, lost, token_new(w), "wait_ms=20000");
    const char *known = lease_id(w->a, &s, known_lock);
    const char *list = in_query ? text(w, "held=%s", known)
                                : text(w, "{\"held\": [\"%s\"]}", known);
    /* Young ones may be on their way to the client. */
    for (int64_t end = now_ms() + ttl_ms / 2; now_ms() < end; nap_ms(100)) {
        r = in_query ? keep_alive(w->a, &s, list) : keep_alive_body(w->a, &s, list);
        expect_alive(r, 3);
    }
    stays_true(keep_alive(w->b, &s, NULL)->status == 200, ttl_ms * 7 / 10);
    expect_alive(keep_alive(w->b, &s, NULL), 3); /* who says nothing lets go of nothing */
    session_hold(w->b, &s, young, NULL);
    session_hold(w->b, &s, shared, "owner=me");
    assert_false(call_done(next));
    r = in_query ? keep_alive(w->a, &s, list) : keep_alive_body(w->a, &s, list);
    expect_alive(r, 3);
    assert_non_null(lease_of(r, known_lock));
    assert_non_null(lease_of(r, young));
    assert_string_equal(redis_str(w->redis, "HGET %s %s:me", shared, s.id), "1");
    expect_status(call_await(next, SOON_MS), 201);
    expect_alive(keep_alive(w->b, &s, NULL), 3);
    /* Its token is spent, and says nothing odd when it comes after all. */
    r = session_put(w->b, &s, lost, unknown, NULL);
    expect_problem(r, 410, "lease-ended");
    r = lock_release(w->b, lost, unknown);
    expect_true(r, r->status == 200 || r->status == 410);
    if (r->status == 200)
        expect_int(r, "hold_count", 0);
    expect_status(session_end(w->a, &s), 200);
    expect_status(session_end(w->a, &other), 200);
}

static void test_held_in_a_body(struct world *w)
{
    held_round(w, false);
}

static void test_held_in_the_query(struct world *w)
{
    held_round(w, true);
}

static void test_held_nothing(struct world *w)
{
    int ttl_ms = (int)patience_ms(1000);
    struct session s = session_new(w->a, ttl_of(w, 1000));

    session_hold(w->a, &s, "held-none/1", NULL);
    session_hold(w->a, &s, "held-none/2", "ttl_ms=60000");
    stays_true(keep_alive(w->b, &s, NULL)->status == 200, ttl_ms + 100);
    expect_alive(keep_alive_body(w->a, &s, "{\"held\": []}"), 0);
    assert_int_equal(json_array_size(redis_keys(w->redis, "held-none/")), 0);
    session_hold(w->a, &s, "held-none/3", NULL);
    stays_true(keep_alive(w->b, &s, NULL)->status == 200, ttl_ms + 100);
    expect_alive(keep_alive(w->a, &s, "held="), 0);
}

/* What is kept of the names lasts as long as what is kept of the lease. */
static void test_held_nothing_of_several_locks(struct world *w)
{
    struct session s = session_new(w->a, ttl_of(w, 1000));
    struct reply *r = multi_put(w->a, &s, token_new(w), "{held}a {held}b",
                                ", \"ttl_ms\": 600000");
    const char *names = text(w, "PTTL rlockd:set:{%s}", reply_str(r, "lease_id"));

    expect_status(r, 201);
    stays_true(keep_alive(w->b, &s, NULL)->status == 200, patience_ms(1000) + 100);
    assert_in_range(redis_int(w->redis, names), 500000, 660000);
    expect_alive(keep_alive_body(w->a, &s, "{\"held\": []}"), 0);
    wait_until(redis_int(w->redis, names) <= 60000, 3000);
}

static const char *held_body(struct world *w, size_t count)
{
    char body[20000];
    size_t len = (size_t)snprintf(body, sizeof(body), "{\"held\":[");

    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(body + len, sizeof(body) - len,
                                "%s\"%08zx-0000-4000-8000-000000000001\"", i ? "," : "", i);
    snprintf(body + len, sizeof(body) - len, "]}");
    return text(w, "%s", body);
}

static void test_held_that_is_refused(struct world *w)
{
    static const char *const wrong[] = {
        "{\"held\": \"d9428888-122b-11e1-b85c-61cd3cbb3210\"}",
        "{\"held\": [1]}",
        "{\"held\": [\"nonsense\"]}",
        "{\"held\": {}}",
        "{\"held\": [\"d9428888-122b-11e1-b85c-61cd3cbb3210\", \"\"]}",
    };
    struct session s = session_new(w->a, NULL);
    struct reply *r;

    session_hold(w->a, &s, "held-wrong", NULL);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        r = keep_alive_body(w->a, &s, wrong[i]);
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, "held");
    }
    r = keep_alive(w->a, &s, "held=nonsense");
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "held");
    r = HTTP(w->a, .method = "POST", .path = text(w, "/v1/sessions/%s/keep-alive?held=", s.id),
             .body = text(w, "{\"held\":[\"%s\"]}", s.id), .headers = {s.header});
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "held");
    r = keep_alive_body(w->a, &s, held_body(w, 400));
    assert_int_equal(json_array_size(reply_get(r, "leases")), 1);
    assert_int_equal(json_array_size(reply_get(r, "lost")), 400); /* it has none of them */
    r = keep_alive_body(w->a, &s, held_body(w, 401));
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "held");
    expect_alive(keep_alive(w->a, &s, NULL), 1);
}

static void test_hanging_until_the_session_ends(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct call *here, *there;

    here = keep_alive_hang(w->a, &s, 14000);
    there = keep_alive_hang(w->b, &s, 14000);
    stays_true(!call_done(here) && !call_done(there), 150);
    expect_status(session_end(w->a, &s), 200);
    expect_problem(call_await(here, AT_ONCE_MS), 410, "session-ended");
    expect_problem(call_await(there, AT_ONCE_MS), 410, "session-ended");
}

static void test_one_of_two_hanging_ones_is_told(struct world *w)
{
    struct session s = session_new(w->a, NULL), other = session_new(w->a, NULL);
    struct call *here, *there, *others;
    int wait_ms = (int)patience_ms(1500);

    session_hold(w->a, &s, "hang/all", NULL);
    here = keep_alive_park(w->a, &s, wait_ms);
    there = keep_alive_park(w->b, &s, wait_ms);
    others = keep_alive_hang(w->b, &other, wait_ms);
    stays_true(!call_done(here) && !call_done(there), 150);
    expect_status(force_unlock(w->b, "hang/all"), 200);
    wait_until(call_done(here) || call_done(there), AT_ONCE_MS);
    struct call *first = call_done(here) ? here : there;
    expect_loss(call_await(first, 0), "hang/all", "forced");
    /* The other one may come to it when that has been told already. */
    expect_status(call_await(first == here ? there : here, 3000), 200);
    expect_alive(call_await(others, 3000), 0);
}

/* Its messages come by a connection that may be cut. */
static void test_hanging_while_messages_are_cut_off(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct call *call;
    struct reply *r;

    session_hold(w->a, &s, "hang/cut", "ttl_ms=60000");
    call = keep_alive_hang(w->b, &s, 14000);
    stays_true(!call_done(call), 150);
    for (int i = 0; i < 3; i++) {
        redis_ok(w->redis, "CLIENT KILL TYPE pubsub");
        stays_true(!call_done(call), 200);
    }
    redis_ok(w->redis, "CLIENT KILL TYPE pubsub");
    expect_status(force_unlock(w->a, "hang/cut"), 200); /* nobody hears of this one */
    r = call_await(call, 4000);
    expect_loss(r, "hang/cut", "forced");
}

/* The session was kept alive when the request came: "not executed" would be untrue. */
static void test_hanging_while_redis_goes(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    struct session s = session_new(fe, NULL);
    struct call *call = keep_alive_park_at(redis, fe, &s, (int)patience_ms(1000));
    struct reply *r;

    stays_true(!call_done(call), 150);
    redis_kill(redis);
    r = call_await(call, 10000);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    r = keep_alive(fe, &s, NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    redis_return(redis);
    wait_until(front_ready(fe), 5000);
    expect_status(keep_alive(fe, &s, NULL), 200);
}

/* The session has so many notes that they come in pages, and Redis answers the keep-alive, but
 * no page: the request does not hang, for it would not see a lease end. */
static void test_leases_that_cannot_be_read(struct world *w)
{
    static const char NOTES[] =
        "local ms = redis.call('time')[1] .. '000'; for i = 1, 2000 do redis.call('hset',"
        " KEYS[1], ('%08d-0000-4000-8000-000000000001 note/%d'):format(i, i), ms) end";
    enum { TRIES = 5 };
    struct redis *redis = redis_start(w, NULL);
    struct proxy *proxy = proxy_start(redis);
    struct front *fe = front_start(w, "--redis", proxy_url(proxy, "", ""), NULL);
    struct session s = session_new(fe, "ttl_ms=600000");

    struct reply *r;
    int tries = 0;

    redis_ok(redis, "EVAL %s 1 rlockd:session-leases:{%s}", NOTES, s.id);
    do { /* again, if the machine stood still until the keep-alive's answer was given up, too */
        proxy_set(proxy, PROXY_PASS);
        wait_until(front_ready(fe), 6000);
        proxy_set(proxy, PROXY_HOLD);
        struct call *call = keep_alive_park_at(redis, fe, &s, 60000);
        nap_ms(100); /* the answer is on its way to the proxy */
        proxy_pass_held(proxy);
        r = call_await(call, 10000);
    } while (r->status == 503 && ++tries < TRIES);
    expect_status(r, 200);
    expect_absent(r, "leases");
    expect_absent(r, "lost");
}

static void test_a_loss_at_the_moment_it_comes(struct world *w)
{
    enum { ROUNDS = 60 };
    struct session s = session_new(w->a, NULL);

    for (int i = 0; i < ROUNDS; i++) {
        const char *lock = text(w, "hang/race-%d", i);
        struct call *call, *force;
        struct reply *r;

        session_hold(w->a, &s, lock, "ttl_ms=60000");
        force = CALL(w->b, .method = "POST", .path = lock_path(w, lock, "/force-unlock"));
        call = keep_alive_hang(i % 2 ? w->a : w->b, &s, 10000);
        r = call_await(call, AT_ONCE_MS);
        expect_loss(r, lock, "forced");
        expect_status(call_await(force, AT_ONCE_MS), 200);
        wait_until(losses_len(keep_alive(w->a, &s, NULL)) == 0, AT_ONCE_MS);
    }
}

static void test_hanging_while_it_drains(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(fe, NULL);
    struct call *call;
    struct reply *r;

    session_hold(fe, &s, "hang/drain", NULL);
    call = keep_alive_park(fe, &s, 14000);
    stays_true(!call_done(call), 150);
    front_stop(fe);
    r = call_await(call, AT_ONCE_MS);
    expect_alive(r, 1);
    expect_bool(r, "draining", true);
    stays_true(redis_has(w->redis, "hang/drain"), 2 * watchdog_ms());
    expect_alive(keep_alive(w->a, &s, NULL), 1);
}

/* Beside the note that every session has there is that of a lease, and next comes the lock. */
static bool is_noted(struct world *w, const struct session *s)
{
    return redis_int(w->redis, "HLEN rlockd:session-leases:{%s}", s->id) == 2;
}

/* Requests for leases of three sessions, of which one hangs in a keep-alive. */
struct unheard {
    struct session s, other, hung;
    const char *token, *claimed_lock, *looked_at_lock, *late_lock;
    struct call *claimed, *looked_at, *late, *hanging;
    struct reply *alive; /* to a keep-alive of `s` */
    size_t looked_at_leases;
};

static bool is_given_up(const struct unheard *u)
{
    return call_done(u->claimed) || call_done(u->looked_at) || call_done(u->late);
}

/* Whether the leases are listed while Redis has granted them, and their front end does not
 * know: it gives an answer up after 2 s, for which the machine may stand still. */
static bool list_unheard(struct world *w, struct proxy *proxy, struct front *far, int try,
                         struct unheard *u)
{
    *u = (struct unheard){.s = session_new(w->a, NULL),
                          .other = session_new(w->a, NULL),
                          .hung = session_new(w->a, NULL),
                          .token = token_new(w),
                          .claimed_lock = text(w, "listed/claimed-%d", try),
                          .looked_at_lock = text(w, "listed/looked-at-%d", try),
                          .late_lock = text(w, "listed/late-%d", try)};
    wait_until(front_ready(far), 6000);
    proxy_set(proxy, PROXY_HOLD);
    u->hanging = keep_alive_park(w->a, &u->hung, (int)patience_ms(1500));
    u->late = session_call_put(far, &u->hung, u->late_lock, token_new(w), "ttl_ms=60000");
    u->claimed = session_call_put(far, &u->s, u->claimed_lock, u->token, "ttl_ms=60000");
    u->looked_at = session_call_put(far, &u->other, u->looked_at_lock, token_new(w),
                                    "ttl_ms=60000");
    wait_until((is_noted(w, &u->hung) && is_noted(w, &u->s) && is_noted(w, &u->other)) ||
                   is_given_up(u),
               3000);
    proxy_pass_held(proxy);
    wait_until((redis_has(w->redis, u->claimed_lock) &&
                redis_has(w->redis, u->looked_at_lock) && redis_has(w->redis, u->late_lock)) ||
                   is_given_up(u),
               3000);
    proxy_set(proxy, PROXY_DROP_REPLIES);
    u->alive = keep_alive(w->a, &u->s, NULL);
    u->looked_at_leases = leases_len(session_look(w->a, u->other.id));
    if (!is_given_up(u))
        return true;
    proxy_set(proxy, PROXY_PASS);
    call_hang_up(u->hanging);
    return false;
}

/* A lease that a keep-alive has listed, at once or after it hung, stays with the client, also
 * when the request for the lease ends as unknown; a lease that a mere look has listed is taken
 * back, long before the lease ends by itself. */
static void test_listed_is_not_taken_back(struct world *w)
{
    enum { TRIES = 5 };
    struct proxy *proxy = proxy_start(w->redis);
    struct front *far = front_start(w, "--redis", proxy_url(proxy, "", ""), WATCHDOG_FLAGS,
                                    NULL);
    struct session first = session_new(w->a, NULL);
    struct unheard u;
    struct reply *r;
    int try = 1;

    /* Redis knows the scripts, so that nothing but the last answer is lost. */
    expect_status(session_put(far, &first, "listed/first", token_new(w), NULL), 201);
    while (!list_unheard(w, proxy, far, try, &u))
        assert_true(try++ < TRIES);
    expect_alive(u.alive, 1);
    assert_int_equal(u.looked_at_leases, 1);
    r = call_await(u.claimed, 4000);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    expect_status(call_await(u.looked_at, 1000), 503);
    expect_status(call_await(u.late, 1000), 503);
    expect_alive(call_await(u.hanging, 4000), 1);
    proxy_set(proxy, PROXY_PASS);
    wait_until(!redis_has(w->redis, u.looked_at_lock), 6000);
    stays_true(redis_has(w->redis, u.claimed_lock) && redis_has(w->redis, u.late_lock), 1000);
    r = keep_alive(w->b, &u.s, NULL);
    expect_alive(r, 1);
    assert_non_null(lease_of(r, u.claimed_lock));
    expect_status(session_put(w->b, &u.s, u.claimed_lock, u.token, "ttl_ms=60000"), 200);
}

static void test_who_hangs_up_leaves_nothing(struct world *w)
{
    enum { CALLS = 20 };
    struct front *fe = front_start(w, "--redis", w->redis->url, WATCHDOG_FLAGS, NULL);
    struct session s = session_new(fe, NULL);
    struct call *calls[CALLS];

    session_hold(fe, &s, "hang/up", NULL);
    for (int i = 0; i < CALLS; i++)
        calls[i] = keep_alive_hang(fe, &s, 14000);
    wait_until(front_metric(fe, "rlockd_connections", NULL) > CALLS, 3000);
    for (int i = 0; i < CALLS; i++)
        call_hang_up(calls[i]);
    wait_until(front_metric(fe, "rlockd_connections", NULL) <= 1, 3000);
    expect_status(force_unlock(w->a, "hang/up"), 200);
    struct reply *r = keep_alive(fe, &s, NULL);
    expect_loss(r, "hang/up", "forced");
    front_stop(fe);
}

int main(void)
{
    const char *const flags[] = {WATCHDOG_FLAGS, NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_counts_from_its_arrival),
        E2E_TEST(test_a_wait_that_is_too_long_is_no_sign_of_life),
        E2E_TEST(test_held_in_a_body),
        E2E_TEST(test_held_in_the_query),
        E2E_TEST(test_held_nothing),
        E2E_TEST(test_held_nothing_of_several_locks),
        E2E_TEST(test_held_that_is_refused),
        E2E_TEST(test_hanging_until_the_session_ends),
        E2E_TEST(test_one_of_two_hanging_ones_is_told),
        E2E_TEST(test_hanging_while_messages_are_cut_off),
        E2E_TEST(test_hanging_while_redis_goes),
        E2E_TEST(test_leases_that_cannot_be_read),
        E2E_TEST(test_a_loss_at_the_moment_it_comes),
        E2E_TEST(test_hanging_while_it_drains),
        E2E_TEST(test_listed_is_not_taken_back),
        E2E_TEST(test_who_hangs_up_leaves_nothing),
    };
    struct e2e_plan plan = {
        .name = "keep-alive", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
