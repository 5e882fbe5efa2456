/* Sessions that wait for each other's locks: what they are told, and which request is refused.
 */
#include <signal.h>
#include <string.h>

#include "harness_session.h"
#include "multi_locks.h"

/* A deadlock is told this much later at the latest, on an idle machine: the check after a
 * second may come before the other waits are noted, and the next one comes two seconds later.
 */
enum { TOLD_MS = 8000, MEMBERS = 5 };

static double deadlocks(struct world *w)
{
    return front_metric(w->a, "rlockd_deadlocks_total", NULL) +
           front_metric(w->b, "rlockd_deadlocks_total", NULL);
}

/* The request waits, as the lock's home says. */
static struct call *park(struct front *fe, const struct session *s, const char *lock,
                         const char *query)
{
    int before = waiter_count(fe, lock);
    struct call *call = session_call_put(fe, s, lock, token_new(fe->world),
                                         text(fe->world, "wait_ms=50000&%s", query));

    wait_until(waiter_count(fe, lock) > before, 5000);
    return call;
}

static size_t waits_shown(struct front *fe, const struct session *s)
{
    return json_array_size(json_object_get(session_look(fe, s->id)->json, "waits"));
}

/* Any wait that begins from now on is younger, for sure: after its first second the wait has
 * been noted, with the time when it began by Redis' clock, which is late on a busy machine. */
static struct call *park_elder(struct front *fe, const struct session *s, const char *lock,
                               const char *query)
{
    size_t before = waits_shown(fe, s);
    struct call *call = park(fe, s, lock, query);

    wait_until(waits_shown(fe, s) > before, 5000);
    return call;
}

static size_t cycle_of(const struct reply *reply)
{
    return json_array_size(json_object_get(reply->json, "deadlock"));
}

/* The first lock of the listing of waits. */
static size_t waited_cycle(struct front *fe, const char *prefix)
{
    struct reply *r = http(fe, "GET",
                           text(fe->world, "/v1/locks?order=waited&prefix=%s", prefix), NULL);

    return json_array_size(json_object_get(reply_get(r, "locks.0"), "deadlock"));
}

/* Two sessions over two front ends: the younger wait is refused, the elder one goes on. */
static void test_the_youngest_is_refused(struct world *w)
{
    double before = deadlocks(w);
    struct session s = session_new(w->a, "on_deadlock=refuse&name=elder");
    struct session t = session_new(w->b, "on_deadlock=refuse&name=younger");

    session_hold(w->a, &s, "refused/one", "owner=x");
    const char *held = session_hold(w->b, &t, "refused/two", NULL);
    struct call *elder = park_elder(w->a, &s, "refused/two", "owner=x&note=why");
    struct call *younger = park(w->b, &t, "refused/one", "");
    struct reply *r = call_await(younger, TOLD_MS);
    expect_problem(r, 423, "deadlock");
    expect_str(r, "lock", "refused/one");
    assert_int_equal(cycle_of(r), 2);
    expect_str(r, "deadlock.0.session_id", t.id);
    expect_str(r, "deadlock.0.session_name", "younger");
    expect_str(r, "deadlock.0.lock", "refused/one");
    expect_str(r, "deadlock.1.session_id", s.id);
    expect_str(r, "deadlock.1.owner", "x");
    expect_str(r, "deadlock.1.note", "why");
    expect_str(r, "deadlock.1.lock", "refused/two");
    assert_false(call_done(elder));
    wait_until(waiter_count(w->a, "refused/one") == 0, TOLD_MS);
    expect_status(lock_release(w->b, "refused/two", held), 200);
    expect_status(call_await(elder, 5000), 201);
    assert_true(deadlocks(w) == before + 1);
    assert_non_null(front_log_find(w->b, "deadlock"));
}

/* Nobody is refused: both learn of it, and so does who looks. */
static void test_a_deadlock_is_told(struct world *w)
{
    double before = deadlocks(w);
    struct session s = session_new(w->a, "ttl_ms=600000"); /* no keep-alive */
    struct session t = session_new(w->b, "ttl_ms=600000");

    session_hold(w->a, &s, "told/one", NULL);
    session_hold(w->b, &t, "told/two", NULL);
    struct call *elder = park(w->a, &s, "told/two", "kind=lock");
    /* Until it is told, and listed by the census. */
    struct call *younger = session_call_put(
        w->b, &t, "told/one", token_new(w),
        text(w, "wait_ms=%d", 5000 + (int)patience_ms(4000)));
    wait_until(cycle_of(lock_look(w->a, "told/one")) == 2, TOLD_MS);
    assert_int_equal(cycle_of(lock_look(w->b, "told/two")), 2);
    wait_until(waited_cycle(w->b, "told/") == 2, TOLD_MS);
    struct reply *r = call_await(younger, 12000);
    expect_problem(r, 423, "locked");
    assert_int_equal(cycle_of(r), 2);
    expect_str(r, "holder.session_id", s.id);
    wait_until(cycle_of(lock_look(w->a, "told/one")) == 0, 5000); /* nothing waits for it */
    assert_true(deadlocks(w) == before + 1);
    call_hang_up(elder);
}

/* Five owners of two sessions, in a circle, with locks of every kind. */
static void test_a_long_cycle(struct world *w)
{
    double before = deadlocks(w);
    static const char *const kinds[MEMBERS] = {"lock", "fair", "read", "write", "lock"};
    struct session s = session_new(w->a, "on_deadlock=refuse");
    struct session t = session_new(w->b, "on_deadlock=refuse");
    struct call *calls[MEMBERS];

    for (int i = 0; i < MEMBERS; i++)
        session_hold(w->a, i % 2 ? &s : &t, text(w, "circle/%d", i),
                     text(w, "owner=o%d&kind=%s", i, kinds[i]));
    for (int i = 0; i < MEMBERS; i++) {
        int next = (i + 1) % MEMBERS;
        const char *kind = strcmp(kinds[next], "read") == 0 ? "write" : kinds[next];
        struct call *(*parks)(struct front *, const struct session *, const char *,
                              const char *) = next == 0 ? park : park_elder;
        calls[i] = parks(i % 2 ? w->a : w->b, i % 2 ? &s : &t, text(w, "circle/%d", next),
                         text(w, "owner=o%d&kind=%s", i, kind));
    }
    struct reply *r = call_await(calls[MEMBERS - 1], TOLD_MS);
    expect_problem(r, 423, "deadlock");
    assert_int_equal(cycle_of(r), MEMBERS);
    expect_str(r, "deadlock.0.owner", "o4");
    expect_str(r, "deadlock.4.lock", "circle/4");
    for (int i = 0; i < MEMBERS - 1; i++) {
        assert_false(call_done(calls[i]));
        call_hang_up(calls[i]);
    }
    assert_true(deadlocks(w) == before + 1);
}

/* One of many readers holds up a writer, which has a lock that the reader waits for. */
static void test_one_reader_of_many(struct world *w)
{
    struct session writer = session_new(w->a, "on_deadlock=refuse"), readers[6];

    session_hold(w->a, &writer, "readers/mine", NULL);
    for (int i = 0; i < 6; i++) {
        readers[i] = session_new(w->b, "on_deadlock=refuse");
        session_hold(w->b, &readers[i], "readers/shared", "kind=read");
    }
    struct call *waits = park_elder(w->a, &writer, "readers/shared", "kind=write");
    struct call *refused = park(w->b, &readers[4], "readers/mine", "");
    expect_problem(call_await(refused, TOLD_MS), 423, "deadlock");
    expect_status(session_end(w->b, &readers[4]), 200);
    assert_false(call_done(waits));
    call_hang_up(waits);
}

/* The cycle through the reader that came first has its youngest wait elsewhere, and is told
 * there only; but in that through the other reader the writer is the youngest. */
static void test_a_wait_in_two_cycles(struct world *w)
{
    /* All waits are noted before the first check. */
    struct front *fe = front_start(w, "--redis", w->redis->url, "--deadlock-check-ms", "6000",
                                   NULL);
    struct session teller = session_new(fe, NULL);
    struct session reader = session_new(fe, "on_deadlock=refuse");
    struct session writer = session_new(fe, "on_deadlock=refuse");

    session_hold(fe, &teller, "both/shared", "kind=read");
    session_hold(fe, &reader, "both/shared", "kind=read");
    session_hold(fe, &writer, "both/one", NULL);
    session_hold(fe, &writer, "both/two", NULL);
    struct call *elder = park_elder(fe, &reader, "both/one", "");
    struct call *refused = park_elder(fe, &writer, "both/shared", "kind=write");
    struct call *younger = park_elder(fe, &teller, "both/two", "");
    struct reply *r = call_await(refused, 2 * TOLD_MS);
    expect_problem(r, 423, "deadlock");
    assert_int_equal(cycle_of(r), 2);
    expect_str(r, "deadlock.1.session_id", reader.id);
    assert_false(call_done(elder));
    assert_false(call_done(younger));
    call_hang_up(elder);
    call_hang_up(younger);
}

/* The lease that waits is of several locks: any of them may close the cycle. */
static void test_a_set_that_waits(struct world *w)
{
    struct session s = session_new(w->a, "on_deadlock=refuse");
    struct session t = session_new(w->b, "on_deadlock=refuse");

    session_hold(w->a, &s, "{dl}/mine", NULL);
    session_hold(w->b, &t, "{dl}/b", NULL);
    struct session other = session_new(w->b, NULL);
    session_hold(w->b, &other, "{dl}/a", NULL);
    struct call *set = multi_park(w->a, &s, token_new(w), "{dl}/a {dl}/b",
                                  ", \"wait_ms\": 30000");
    wait_until(waits_shown(w->a, &s) == 1, 5000);
    struct call *younger = park(w->b, &t, "{dl}/mine", "");
    struct reply *r = call_await(younger, TOLD_MS);
    expect_problem(r, 423, "deadlock");
    expect_str(r, "deadlock.1.lock", "{dl}/b");
    assert_false(call_done(set));
    call_hang_up(set);
}

/* A waits for B, B for C, and C for a client without a session: nobody is told. Nor is a
 * session that waits for its own lock, for another thread of it may release the lock. */
static void test_what_is_no_cycle(struct world *w)
{
    double before = deadlocks(w);
    struct session s = session_new(w->a, "on_deadlock=refuse");
    struct session t = session_new(w->b, "on_deadlock=refuse");

    session_hold(w->a, &s, "chain/one", NULL);
    session_hold(w->b, &t, "chain/two", "owner=x");
    expect_status(lock_put(w->a, "chain/three", token_new(w), NULL), 201);
    struct call *calls[] = {
        park(w->a, &s, "chain/two", ""), park(w->b, &t, "chain/three", "owner=x"),
        park(w->a, &s, "chain/one", ""), park(w->b, &t, "chain/one", "owner=y")};
    stays_true(deadlocks(w) == before, 5000);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        assert_false(call_done(calls[i]));
        call_hang_up(calls[i]);
    }
}

/* The front end of a wait is killed: what it has noted proves nothing. */
static void test_a_dead_front_end_is_no_link(struct world *w)
{
    double before = deadlocks(w);
    struct front *third = front_start(w, "--redis", w->redis->url, NULL);
    struct session s = session_new(w->a, NULL);
    struct session t = session_new(w->b, "on_deadlock=refuse");

    session_hold(w->a, &s, "dead/one", NULL);
    session_hold(w->b, &t, "dead/two", NULL);
    struct call *lost = park_elder(third, &s, "dead/two", "");
    front_kill(third);
    struct call *waits = park(w->b, &t, "dead/one", "");
    stays_true(!call_done(waits) && deadlocks(w) == before, 6000);
    call_hang_up(waits);
    call_hang_up(lost);
}

/* The link breaks while the check waits for the proof: the front end that has to answer stands
 * still, and the holder releases its lock meanwhile. */
static void test_a_cycle_that_breaks_is_not_told(struct world *w)
{
    double before = deadlocks(w);
    struct front *third = front_start(w, "--redis", w->redis->url, NULL);
    struct session s = session_new(w->a, NULL);
    struct session t = session_new(w->b, "on_deadlock=refuse");

    const char *held = session_hold(w->a, &s, "broken/one", NULL);
    session_hold(w->b, &t, "broken/two", NULL);
    struct call *elder = park_elder(third, &s, "broken/two", "");
    child_signal(third->child, SIGSTOP);
    struct call *younger = park(w->b, &t, "broken/one", "");
    stays_true(!call_done(younger), 2500);
    expect_status(lock_release(w->a, "broken/one", held), 200);
    child_signal(third->child, SIGCONT);
    expect_status(call_await(younger, 5000), 201);
    assert_true(deadlocks(w) == before);
    call_hang_up(elder);
}

/* Of one lock and of several, at another front end than the request's. */
static void test_a_session_shows_its_waits(struct world *w)
{
    struct session s = session_new(w->a, "on_deadlock=refuse"), t = session_new(w->b, NULL);

    session_hold(w->b, &t, "{shown}/one", NULL);
    assert_int_equal(waits_shown(w->b, &s), 0);
    struct call *one = park_elder(w->a, &s, "{shown}/one", "owner=x&note=why");
    struct reply *r = session_look(w->b, s.id);
    expect_str(r, "on_deadlock", "refuse");
    expect_str(r, "waits.0.lock", "{shown}/one");
    expect_str(r, "waits.0.owner", "x");
    expect_str(r, "waits.0.note", "why");
    assert_true(reply_int(r, "waits.0.waited_ms") >= 1000);
    call_hang_up(one);
    wait_until(waits_shown(w->b, &s) == 0, 5000);
    struct call *set = multi_park(w->a, &s, token_new(w), "{shown}/one {shown}/two",
                                  ", \"wait_ms\": 30000");
    wait_until(waits_shown(w->b, &s) == 1, 5000);
    expect_str(session_look(w->b, s.id), "waits.0.locks.1.lock", "{shown}/two");
    r = session_look(w->a, t.id);
    expect_str(r, "on_deadlock", "tell");
    assert_int_equal(waits_shown(w->a, &t), 0);
    call_hang_up(set);
}

/* The names of locks that a caller may not read are in none of its answers: not in a deadlock,
 * and not in what a session waits for. */
static void test_names_that_a_caller_may_not_read(struct world *w)
{
    static const char token[] = "mine-secret-bbbbbbbb";
    struct front *guarded = front_start(
        w, "--redis", w->redis->url, "--api-tokens",
        tokens_write(w, "tokens", text(w, "mine {%s} lock=mine/ read=mine/\n", token)), NULL);
    struct session s = session_new(w->a, NULL), t = session_new(w->b, NULL);

    session_hold(w->a, &s, "mine/one", NULL);
    session_hold(w->b, &t, "theirs/two", NULL);
    struct call *elder = park(w->a, &s, "theirs/two", "note=secret");
    struct call *younger = park(w->b, &t, "mine/one", "note=plain");
    wait_until(cycle_of(lock_look(w->a, "mine/one")) == 2, TOLD_MS);
    struct reply *r = HTTP(guarded, .method = "GET", .path = "/v1/locks/mine%2Fone",
                           .headers = {bearer(w, token)});
    expect_status(r, 200);
    assert_int_equal(cycle_of(r), 2);
    assert_non_null(strstr(r->text, "plain"));
    assert_null(strstr(r->text, "theirs"));
    assert_null(strstr(r->text, "secret"));
    assert_int_equal(waits_shown(w->a, &s), 1);
    r = HTTP(guarded, .method = "GET", .path = text(w, "/v1/sessions/%s", s.id),
             .headers = {bearer(w, token)});
    expect_status(r, 200);
    assert_int_equal(json_array_size(json_object_get(r->json, "waits")), 0);
    assert_null(strstr(r->text, "theirs"));
    call_hang_up(younger);
    call_hang_up(elder);
}

static void test_how_a_session_is_opened(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = session_open(w->a, token, "on_deadlock=refuse");

    expect_status(r, 201);
    expect_str(r, "on_deadlock", "refuse");
    expect_status(session_open(w->b, token, "on_deadlock=refuse"), 200);
    expect_problem(session_open(w->b, token, NULL), 422, "token-reused");
    expect_detail(session_open(w->a, token_new(w), "on_deadlock=panic"), "on_deadlock");
    r = session_open(w->a, token_new(w), NULL);
    expect_str(r, "on_deadlock", "tell");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_the_youngest_is_refused),
        E2E_TEST(test_a_deadlock_is_told),
        E2E_TEST(test_a_long_cycle),
        E2E_TEST(test_one_reader_of_many),
        E2E_TEST(test_a_wait_in_two_cycles),
        E2E_TEST(test_a_set_that_waits),
        E2E_TEST(test_what_is_no_cycle),
        E2E_TEST(test_a_dead_front_end_is_no_link),
        E2E_TEST(test_a_cycle_that_breaks_is_not_told),
        E2E_TEST(test_a_session_shows_its_waits),
        E2E_TEST(test_names_that_a_caller_may_not_read),
        E2E_TEST(test_how_a_session_is_opened),
    };
    struct e2e_plan plan = {.name = "deadlocks", E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
