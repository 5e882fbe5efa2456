/* redis-quorum:// with servers that are killed, stand still, lose their data or are cut off
 * from one front end, before each operation and in the midst of it. */
#include "multi_locks.h"
#include "quorum.h"

enum { SOON_MS = 10000 };

/* --- what befalls a server ---------------------------------------------------------------- */

enum fault { KILLED, FROZEN, EMPTIED, CUT_OFF, FAULTS };

static const char *const fault_names[FAULTS] = {"killed", "frozen", "emptied", "cut off"};

/* `a` is the front end that is cut off. */
static void befall(struct quorum *q, struct quorum_front *a, int server, enum fault fault)
{
    switch (fault) {
    case KILLED:
        redis_kill(q->server[server]);
        return;
    case FROZEN:
        redis_freeze(q->server[server]);
        return;
    case EMPTIED:
        quorum_empty(q->server[server]);
        return;
    case CUT_OFF:
        proxy_set(a->proxy[server], PROXY_RESET);
        return;
    case FAULTS:
        break;
    }
    FAIL("no such fault");
}

/* --- operations --------------------------------------------------------------------------- */

struct scene {
    struct world *w;
    struct front *a, *b; /* `a` may be cut off */
    const char *lock, *token, *rival;
    json_int_t fence;
};

/* Asks again where the outcome is unknown, since a server was late by a second, or where a
 * server has not heard yet of the release that a majority has answered. */
static struct reply *granted(struct front *fe, const char *lock, const char *token)
{
    struct reply *r = lock_put(fe, lock, token, "ttl_ms=60000");
    int repeated = 0;

    for (; (r->status == 503 || r->status == 423) && repeated < 20; repeated++) {
        nap_ms(10);
        r = lock_put(fe, lock, token, "ttl_ms=60000");
    }
    expect_true(r, r->status == 201 || (r->status == 200 && repeated > 0));
    return r;
}

static struct reply *ask(struct front *fe, struct scene *s, const char *method,
                         const char *rest, const char *token)
{
    return quorum_ask(fe, method, lock_path(s->w, s->lock, rest), token);
}

static void acquire(struct scene *s)
{
    struct reply *r = granted(s->a, s->lock, s->rival);

    expect_true(r, reply_int(r, "fencing_token") > s->fence);
    expect_problem(ask(s->b, s, "PUT", "", token_new(s->w)), 423, "locked");
    expect_status(ask(s->b, s, "PUT", "?ttl_ms=60000", s->rival), 200);
}

static void hold(struct scene *s)
{
    struct reply *r = granted(s->b, s->lock, s->token);

    s->fence = reply_int(r, "fencing_token");
}

static void confirm(struct scene *s)
{
    struct reply *r = ask(s->a, s, "PUT", "?ttl_ms=60000", s->token);

    expect_status(r, 200);
    expect_int(r, "fencing_token", s->fence);
}

static void refuse(struct scene *s)
{
    expect_problem(ask(s->a, s, "PUT", "", s->rival), 423, "locked");
}

static void renew(struct scene *s)
{
    struct reply *r = ask(s->a, s, "PATCH", "?ttl_ms=60000", s->token);

    expect_status(r, 200);
    expect_int(r, "fencing_token", s->fence);
}

static void release(struct scene *s)
{
    expect_status(ask(s->a, s, "DELETE", "", s->token), 200);
    expect_problem(ask(s->b, s, "PUT", "", s->token), 410, "lease-ended");
    acquire(s);
}

static void look(struct scene *s)
{
    struct reply *r = ask(s->a, s, "GET", "", NULL);

    expect_status(r, 200);
    expect_bool(r, "locked", true);
    const char *check = text(s->w, "/fencing-tokens/%lld", (long long)s->fence);
    expect_status(ask(s->a, s, "GET", check, NULL), 200);
}

static void force(struct scene *s)
{
    expect_status(ask(s->a, s, "POST", "/force-unlock", NULL), 200);
    expect_problem(ask(s->b, s, "PUT", "", s->token), 410, "lease-ended");
    acquire(s);
}

static void wait_for(struct scene *s)
{
    struct call *call = call_put(s->a, s->lock, s->rival, "wait_ms=30000&ttl_ms=60000");

    wait_until(waiter_count(s->b, s->lock) == 1, SOON_MS);
    expect_status(ask(s->b, s, "DELETE", "", s->token), 200);
    expect_status(call_await(call, SOON_MS), 201);
}

static const struct {
    const char *name;
    void (*before)(struct scene *s); /* the fault; NULL: nothing */
    void (*act)(struct scene *s);
} operations[] = {{"acquire", NULL, acquire}, {"confirm", hold, confirm},
                  {"refuse", hold, refuse},   {"renew", hold, renew},
                  {"release", hold, release}, {"look", hold, look},
                  {"force", hold, force},     {"wait", hold, wait_for}};

static void one_server_fails(struct world *w, int count, enum fault fault)
{
    struct quorum *q = quorum_start(w, count);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);
    struct scene scenes[COUNT_OF(operations)];

    printf("%d servers, one %s\n", count, fault_names[fault]);
    for (size_t i = 0; i < COUNT_OF(operations); i++) {
        scenes[i] = (struct scene){.w = w,
                                   .a = a.fe,
                                   .b = b.fe,
                                   .lock = operations[i].name,
                                   .token = token_new(w),
                                   .rival = token_new(w)};
        if (operations[i].before != NULL)
            operations[i].before(&scenes[i]);
    }
    for (int i = 0; i < (count - 1) / 2; i++)
        befall(q, &a, i, fault);
    for (size_t i = 0; i < COUNT_OF(operations); i++)
        operations[i].act(&scenes[i]);
    if (fault == FROZEN)
        for (int i = 0; i < (count - 1) / 2; i++)
            redis_thaw(q->server[i]);
}

#define ONE_SERVER(name, fault)                                                                \
    static void test_##name(struct world *w)                                                   \
    {                                                                                          \
        one_server_fails(w, 3, fault);                                                         \
    }                                                                                          \
    static void test_two_of_five_##name(struct world *w)                                       \
    {                                                                                          \
        one_server_fails(w, 5, fault);                                                         \
    }

ONE_SERVER(killed, KILLED)
ONE_SERVER(frozen, FROZEN)
ONE_SERVER(emptied, EMPTIED)
ONE_SERVER(cut_off, CUT_OFF)

/* --- in the midst of an operation --------------------------------------------------------- */

/* A server as it was, but for its data where it has lost them. */
static void mend(struct quorum *q, struct quorum_front *a, int server, enum fault fault)
{
    switch (fault) {
    case KILLED:
        redis_return(q->server[server]);
        break;
    case FROZEN:
        redis_thaw(q->server[server]);
        return;
    case EMPTIED:
        break;
    case CUT_OFF:
        proxy_set(a->proxy[server], PROXY_PASS);
        return;
    case FAULTS:
        return;
    }
    quorum_trust(q->server[server]);
}

static const struct {
    const char *method, *rest; /* behind the lock's path */
    bool held;                 /* before */
    int status, again;         /* of the request, and of its repetition */
} requests[] = {{"PUT", "?ttl_ms=60000", false, 201, 200},
                {"PUT", "?ttl_ms=60000", true, 200, 200},
                {"PATCH", "?ttl_ms=60000", true, 200, 200},
                {"DELETE", "", true, 200, 200},
                {"GET", "", true, 200, 200},
                {"POST", "/force-unlock", true, 200, 200}};

/* Answers come 300 ms late, and a server fails meanwhile: the request is done, or its outcome
 * is unknown and its repetition at the other front end finds out. */
static void while_under_way(struct world *w, enum fault fault)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);

    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        const char *lock = text(w, "midst/%zu", i), *token = token_new(w);
        const char *path = lock_path(w, lock, requests[i].rest);
        int victim = (int)(i % 3);

        if (requests[i].held)
            expect_status(lock_put(b.fe, lock, token, "ttl_ms=60000"), 201);
        for (int k = 0; k < 3; k++)
            proxy_set(a.proxy[k], PROXY_DELAY);
        struct call *call = CALL(a.fe, .method = requests[i].method, .path = path,
                                 .token = token);
        nap_ms(100);
        befall(q, &a, victim, fault);
        struct reply *r = call_await(call, SOON_MS);
        if (r->status == 503)
            expect_str(r, "outcome", "unknown");
        else
            expect_status(r, requests[i].status);
        r = quorum_ask(b.fe, requests[i].method, path, token);
        expect_true(r, r->status == requests[i].again || r->status == requests[i].status);
        for (int k = 0; k < 3; k++)
            proxy_set(a.proxy[k], PROXY_PASS);
        mend(q, &a, victim, fault);
        wait_until(quorum_all_up(a.fe) && quorum_all_up(b.fe), SOON_MS);
    }
}

static void test_killed_in_the_midst(struct world *w)
{
    while_under_way(w, KILLED);
}

static void test_frozen_in_the_midst(struct world *w)
{
    while_under_way(w, FROZEN);
}

static void test_emptied_in_the_midst(struct world *w)
{
    while_under_way(w, EMPTIED);
}

static void test_cut_off_in_the_midst(struct world *w)
{
    while_under_way(w, CUT_OFF);
}

/* --- no majority -------------------------------------------------------------------------- */

static void test_without_a_majority(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);
    const char *token = token_new(w);

    expect_status(lock_put(a.fe, "kept", token, "ttl_ms=60000"), 201);
    for (int i = 0; i < 2; i++)
        proxy_set(a.proxy[i], PROXY_RESET);
    wait_until(!front_ready(a.fe), SOON_MS);
    struct reply *r = lock_put(a.fe, "none", token_new(w), NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    expect_str(r, "reason", "quorum");
    expect_detail(r, "1 of 3");
    expect_detail(r, text(w, "127.0.0.1:%d: ", proxy_port(a.proxy[1])));
    expect_problem(lock_renew(a.fe, "kept", token, NULL), 503, "redis-unavailable");
    expect_problem(lock_look(a.fe, "kept"), 503, "redis-unavailable");
    assert_int_equal(quorum_holds(q, "none"), 0);
    /* The other front end has its majority. */
    expect_status(lock_renew(b.fe, "kept", token, "ttl_ms=60000"), 200);
    for (int i = 0; i < 2; i++)
        proxy_set(a.proxy[i], PROXY_PASS);
    wait_until(quorum_all_up(a.fe), SOON_MS);
    expect_status(lock_release(a.fe, "kept", token), 200);
}

/* The client was told that nothing was done, so nothing is done later either. */
static void test_a_release_that_no_server_got(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    const char *token = token_new(w);

    expect_status(lock_put(a.fe, "kept", token, "ttl_ms=60000"), 201);
    for (int i = 0; i < 3; i++)
        proxy_set(a.proxy[i], PROXY_RESET);
    wait_until(!front_ready(a.fe), SOON_MS);
    wait_until(strstr(reply_str(http(a.fe, "GET", "/readyz", NULL), "detail"), "0 of 3") !=
                   NULL,
               SOON_MS);
    struct reply *r = lock_release(a.fe, "kept", token);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "not-executed");
    for (int i = 0; i < 3; i++)
        proxy_set(a.proxy[i], PROXY_PASS);
    wait_until(quorum_all_up(a.fe), SOON_MS);
    expect_status(lock_renew(a.fe, "kept", token, "ttl_ms=60000"), 200);
    wait_until(quorum_holds(q, "kept") == 3, SOON_MS);
}

/* The outcome of a grant that one server has is unknown, and the vote is withdrawn. */
static void test_a_vote_without_a_majority_is_undone(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    const char *token = token_new(w);

    for (int i = 0; i < 2; i++)
        redis_freeze(q->server[i]);
    struct reply *r = lock_put(a.fe, "lonely", token, "ttl_ms=60000");
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "outcome", "unknown");
    expect_detail(r, text(w, "127.0.0.1:%d: no reply", proxy_port(a.proxy[0])));
    expect_detail(r, text(w, "127.0.0.1:%d: accepted", proxy_port(a.proxy[2])));
    wait_until(!redis_has(q->server[2], "lonely"), SOON_MS);
    for (int i = 0; i < 2; i++)
        redis_thaw(q->server[i]);
    wait_until(quorum_all_up(a.fe), SOON_MS);
    wait_until(quorum_holds(q, "lonely") == 0, SOON_MS);
    expect_status(lock_put(a.fe, "lonely", token_new(w), "ttl_ms=60000"), 201);
}

/* Every server has granted the lock, and the front end does not know that yet. */
static struct call *grant_under_way(struct quorum *q, const struct quorum_front *a,
                                    const char *lock)
{
    for (int i = 0; i < q->count; i++) {
        proxy_settle(a->proxy[i]);
        proxy_set(a->proxy[i], PROXY_HOLD);
    }
    struct call *call = call_put(a->fe, lock, token_new(q->world), "ttl_ms=60000");
    wait_until(quorum_holds(q, lock) == q->count, SOON_MS);
    return call;
}

/* And its client goes before it does. */
static void hang_up(const struct quorum *q, const struct quorum_front *a, struct call *call)
{
    call_hang_up(call);
    for (int i = 0; i < q->count; i++)
        proxy_set(a->proxy[i], PROXY_PASS);
}

/* The client has gone before its answer, while a server stands still: all votes go, that of the
 * server as soon as it runs again. */
static void test_a_hang_up(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    struct call *call = grant_under_way(q, &a, "gone");

    redis_freeze(q->server[0]);
    hang_up(q, &a, call);
    wait_until(!redis_has(q->server[1], "gone") && !redis_has(q->server[2], "gone"), SOON_MS);
    redis_thaw(q->server[0]);
    wait_until(quorum_holds(q, "gone") == 0, SOON_MS);
}

/* Nor does a withdrawal wait in the front end for servers that cannot be reached. */
static void test_a_hang_up_without_a_majority(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);

    hang_up(q, &a, grant_under_way(q, &a, "alone"));
    for (int i = 0; i < 2; i++)
        proxy_set(a.proxy[i], PROXY_RESET);
    wait_until(!redis_has(q->server[2], "alone"), SOON_MS);
    wait_until(front_metric(a.fe, "rlockd_pending_withdrawals", NULL) == 0, SOON_MS);
}

/* For a while: a vote that is on its way may still come, and goes again. */
static bool is_without(struct redis *server, const char *lock)
{
    for (int i = 0; i < 20; i++) {
        if (redis_has(server, lock))
            return false;
        nap_ms(10);
    }
    return true;
}

/* A majority is busy, and the third server, which has lost the lease, gives its vote: that vote
 * goes, although the request does not wait. */
static void test_a_refused_attempt_leaves_no_vote(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);

    for (int i = 0; i < 3; i++) {
        const char *lock = text(w, "vote/%d", i);
        expect_status(lock_put(a.fe, lock, token_new(w), "ttl_ms=60000"), 201);
        wait_until(quorum_holds(q, lock) == 3, SOON_MS);
        redis_ok(q->server[i], "DEL %s", lock);
        expect_problem(lock_put(a.fe, lock, token_new(w), "ttl_ms=60000"), 423, "locked");
        wait_until(is_without(q->server[i], lock), SOON_MS);
    }
}

/* A release is answered by a majority, and reaches the others when they are back. */
static void test_a_release_reaches_every_server(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    const char *token = token_new(w);

    expect_status(lock_put(a.fe, "later", token, "ttl_ms=100000"), 201);
    wait_until(quorum_holds(q, "later") == 3, SOON_MS);
    redis_kill(q->server[0]);
    expect_status(quorum_ask(a.fe, "DELETE", "/v1/locks/later", token), 200);
    redis_return(q->server[0]);
    wait_until(!redis_has(q->server[0], "later"), SOON_MS);
}

/* After the retry window the token may be used for another lease, and a server that was away so
 * long is not told of the end any more. */
static void test_a_late_release_ends_no_later_lease(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, "--retry-window-ms", "1000", NULL);
    const char *token = token_new(w);

    expect_status(lock_put(a.fe, "again", token, "ttl_ms=2000"), 201);
    proxy_set(a.proxy[0], PROXY_RESET);
    wait_until(lock_release(a.fe, "again", token)->status == 200, SOON_MS);
    nap_ms(3500);
    wait_until(lock_put(a.fe, "again", token, "ttl_ms=60000")->status == 201, SOON_MS);
    proxy_set(a.proxy[0], PROXY_PASS);
    wait_until(quorum_all_up(a.fe), SOON_MS);
    expect_status(lock_put(a.fe, "again", token, "ttl_ms=60000"), 200);
    wait_until(quorum_holds(q, "again") == 3, SOON_MS);
}

/* --- restarts ----------------------------------------------------------------------------- */

/* A server that has lost its data gives no votes: else it would be a majority with the server
 * that never had the lease. */
static void test_an_emptied_server_does_not_vote(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    const char *token = token_new(w), *rival = token_new(w);

    redis_freeze(q->server[2]); /* which has no vote for the lease */
    granted(a.fe, "precious", token);
    quorum_empty(q->server[1]);
    redis_thaw(q->server[2]);
    wait_until(strcmp(quorum_state(a.fe, 1), "quarantine") == 0 &&
                   strcmp(quorum_state(a.fe, 2), "up") == 0,
               SOON_MS);
    for (int i = 0; i < 3; i++) {
        struct reply *r = lock_put(a.fe, "precious", rival, NULL);
        expect_true(r, r->status == 423 || r->status == 503);
    }
    assert_false(redis_has(q->server[1], "precious"));
}

static void renew_all(struct front *fe, const char *token, const char *reader)
{
    expect_status(lock_renew(fe, "long", token, "ttl_ms=100000"), 200);
    expect_status(lock_renew(fe, "read", reader, "ttl_ms=100000"), 200);
    expect_status(multi_ask(fe, "PATCH", token, "ttl_ms=100000"), 200);
}

static int repairs(struct front *fe)
{
    return (int)front_metric(fe, "rlockd_quorum_repairs_total", NULL);
}

/* A renewal gives the lease back to a server that lost its data, in its quarantine: so one
 * server after the other may be restarted. */
static void test_rolling_restarts(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    const char *token = token_new(w), *reader = token_new(w);
    struct reply *r = lock_put(a.fe, "long", token, "ttl_ms=100000");
    json_int_t fence = reply_int(r, "fencing_token");

    expect_status(r, 201);
    expect_status(lock_put(a.fe, "read", reader, "kind=read&ttl_ms=100000"), 201);
    expect_status(multi_put(a.fe, NULL, token, "m1 m2", ", \"ttl_ms\": 100000"), 201);
    for (int i = 0; i < 3; i++) {
        wait_until(quorum_holds(q, "long") == 3 && quorum_holds(q, "read") == 3 &&
                       quorum_holds(q, "m2") == 3,
                   SOON_MS);
        quorum_empty(q->server[i]);
        wait_until(strcmp(quorum_state(a.fe, i), "quarantine") == 0, SOON_MS);
        int before = repairs(a.fe);
        renew_all(a.fe, token, reader);
        wait_until(repairs(a.fe) == before + 3, SOON_MS);
        assert_true(redis_has(q->server[i], "long") && redis_has(q->server[i], "m2"));
        /* As if the quarantine were over, and the data were those of before: they are confirmed
         * by another repair. */
        quorum_trust(q->server[i]);
        wait_until(quorum_all_up(a.fe), SOON_MS);
        renew_all(a.fe, token, reader);
        wait_until(repairs(a.fe) == before + 6, SOON_MS);
    }
    expect_int(lock_renew(a.fe, "long", token, "ttl_ms=100000"), "fencing_token", fence);
    expect_problem(lock_put(a.fe, "long", token_new(w), NULL), 423, "locked");
    expect_status(lock_release(a.fe, "long", token), 200);
    expect_status(multi_ask(a.fe, "DELETE", token, NULL), 200);
}

/* Two servers have lost the lease: its end is told, and stays. */
static void test_a_lost_majority(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);
    const char *token = token_new(w);

    expect_status(lock_put(a.fe, "lost", token, "ttl_ms=100000"), 201);
    for (int i = 0; i < 2; i++) {
        /* The answer waits for a majority only: the last server may grant after it. */
        wait_until(redis_has(q->server[i], "lost"), 5000);
        redis_ok(q->server[i], "DEL lost");
    }
    struct reply *r = lock_renew(a.fe, "lost", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "expired");
    expect_problem(lock_put(b.fe, "lost", token, NULL), 410, "lease-ended");
    expect_problem(lock_renew(b.fe, "lost", token, NULL), 410, "lease-ended");
    assert_true(front_metric(a.fe, "rlockd_quorum_lost_majorities_total", NULL) >= 1);
}

static const struct e2e_test tests[] = {
    E2E_TEST(test_killed),
    E2E_TEST(test_two_of_five_killed),
    E2E_TEST(test_frozen),
    E2E_TEST(test_two_of_five_frozen),
    E2E_TEST(test_emptied),
    E2E_TEST(test_two_of_five_emptied),
    E2E_TEST(test_cut_off),
    E2E_TEST(test_two_of_five_cut_off),
    E2E_TEST(test_killed_in_the_midst),
    E2E_TEST(test_frozen_in_the_midst),
    E2E_TEST(test_emptied_in_the_midst),
    E2E_TEST(test_cut_off_in_the_midst),
    E2E_TEST(test_without_a_majority),
    E2E_TEST(test_a_release_that_no_server_got),
    E2E_TEST(test_a_vote_without_a_majority_is_undone),
    E2E_TEST(test_a_hang_up),
    E2E_TEST(test_a_hang_up_without_a_majority),
    E2E_TEST(test_a_refused_attempt_leaves_no_vote),
    E2E_TEST(test_a_release_reaches_every_server),
    E2E_TEST(test_a_late_release_ends_no_later_lease),
    E2E_TEST(test_an_emptied_server_does_not_vote),
    E2E_TEST(test_rolling_restarts),
    E2E_TEST(test_a_lost_majority),
};

int main(void)
{
    static const struct e2e_plan plan = {
        .name = "quorum_faults", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
