/* redis-quorum:// with requests that come twice, and with rivals, at two front ends at once. */
#include "quorum.h"

enum { SOON_MS = 10000 };

/* One request twice, at two front ends at once: one grants, the other confirms the same grant,
 * or says that it does not know; then a repetition does. */
static void test_duplicates(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front fronts[] = {quorum_front(q, NULL), quorum_front(q, NULL)};

    for (int i = 0; i < 30; i++) {
        const char *lock = text(w, "twice/%d", i), *token = token_new(w);
        struct call *calls[2];
        json_int_t fence = 0;
        int granted = 0;

        for (int k = 0; k < 2; k++)
            calls[k] = call_put(fronts[(i + k) % 2].fe, lock, token, "ttl_ms=60000");
        for (int k = 0; k < 2; k++) {
            struct reply *r = call_await(calls[k], SOON_MS);
            expect_true(r, r->status == 200 || r->status == 201 || r->status == 503);
            if (r->status == 503)
                continue;
            granted += r->status == 201;
            expect_true(r, fence == 0 || reply_int(r, "fencing_token") == fence);
            fence = reply_int(r, "fencing_token");
        }
        assert_true(granted <= 1);
        struct reply *r = lock_put(fronts[0].fe, lock, token, "ttl_ms=60000");
        expect_true(r, r->status == 200 || (r->status == 201 && fence == 0));
        expect_true(r, fence == 0 || reply_int(r, "fencing_token") == fence);
        expect_problem(lock_put(fronts[1].fe, lock, token_new(w), NULL), 423, "locked");
    }
}

/* The token of the rival that has got the lock; NULL: none of them in their time. */
static const char *contend(struct world *w, struct quorum_front fronts[2], const char *path)
{
    const char *tokens[4], *winner = NULL;
    struct call *calls[4];

    for (int k = 0; k < 4; k++) {
        tokens[k] = token_new(w);
        calls[k] = CALL(fronts[k % 2].fe, .method = "PUT", .path = path, .token = tokens[k]);
    }
    for (int k = 0; k < 4; k++) {
        struct reply *r = call_await(calls[k], SOON_MS);
        if (r->status == 503 && r->done_ms - r->sent_ms >= 1000) /* a server was late */
            r = quorum_ask(fronts[k % 2].fe, "PUT", path, tokens[k]);
        expect_true(r, r->status == 201 || r->status == 200 || r->status == 423);
        expect_true(r, r->status == 423 || winner == NULL);
        winner = r->status != 423 ? tokens[k] : winner;
    }
    return winner;
}

/* Rivals at two front ends: never two grants, and in the end one of them gets the lock. */
static void rivals(struct world *w, struct quorum *q, struct quorum_front fronts[2])
{
    enum { TIMES_MAX = 3 }; /* on a busy machine */
    const char *query = text(w, "?ttl_ms=60000&wait_ms=%d", 500 + (int)patience_ms(500));

    for (int i = 0; i < 12; i++) {
        const char *lock = text(w, "split/%d", i), *path = lock_path(w, lock, query);
        const char *winner = contend(w, fronts, path);

        for (int times = 1; winner == NULL && times < TIMES_MAX; times++)
            winner = contend(w, fronts, path);
        assert_non_null(winner);
        /* Nothing is left of the others. */
        expect_status(quorum_ask(fronts[0].fe, "DELETE", lock_path(w, lock, ""), winner), 200);
        wait_until(quorum_holds(q, lock) == 0, SOON_MS);
    }
}

static void test_split_votes(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front fronts[] = {quorum_front(q, NULL), quorum_front(q, NULL)};

    rivals(w, q, fronts);
}

/* With one server down each of two rivals may get one vote: both have to give way. */
static void test_split_votes_without_a_server(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front fronts[] = {quorum_front(q, NULL), quorum_front(q, NULL)};

    redis_kill(q->server[2]);
    q->count = 2; /* that quorum_holds() asks */
    for (int i = 0; i < 2; i++)
        wait_until(strcmp(quorum_state(fronts[i].fe, 2), "down") == 0, SOON_MS);
    rivals(w, q, fronts);
}

/* Whether a renewal has left its mark in the record: the lease was to last longer there. */
static bool is_marked(struct redis *server, const char *lock, const char *lease_id)
{
    const char *record = redis_str(server, "GET rlockd:lease:{%s}:%s", lock, lease_id);

    return record != NULL && strncmp(record, "held\nby ", 8) == 0;
}

/* A renewal that shortens a lease lies in the sockets of two servers, and its client is told
 * that the outcome is unknown. A later one at another front end lengthens the lease: what comes
 * late shortens nothing. */
static void test_a_late_renewal(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL), b = quorum_front(q, NULL);
    const char *token = token_new(w), *lock = "late";

    struct reply *r = lock_put(b.fe, lock, token, "ttl_ms=60000");
    expect_status(r, 201);
    const char *lease_id = reply_str(r, "lease_id");
    wait_until(quorum_holds(q, lock) == 3, SOON_MS);
    for (int i = 1; i < 3; i++) {
        proxy_settle(a.proxy[i]);
        proxy_set(a.proxy[i], PROXY_BLACKHOLE);
    }
    expect_status(http(a.fe, "PATCH", "/v1/locks/late?ttl_ms=10000", token), 503);
    expect_status(quorum_ask(b.fe, "PATCH", "/v1/locks/late?ttl_ms=90000", token), 200);
    for (int i = 1; i < 3; i++)
        proxy_set(a.proxy[i], PROXY_PASS);
    for (int i = 1; i < 3; i++) {
        wait_until(redis_int(q->server[i], "PTTL %s", lock) < 60000 ||
                       is_marked(q->server[i], lock, lease_id),
                   SOON_MS);
        assert_in_range(redis_int(q->server[i], "PTTL %s", lock), 60000, 90000);
    }
    /* In turn it does, at every server. */
    expect_int(quorum_ask(a.fe, "PATCH", "/v1/locks/late?ttl_ms=30000", token), "ttl_ms",
               30000);
    for (int i = 0; i < 3; i++)
        assert_in_range(redis_int(q->server[i], "PTTL %s", lock), 0, 30000);
}

static const struct e2e_test tests[] = {
    E2E_TEST(test_duplicates),
    E2E_TEST(test_split_votes),
    E2E_TEST(test_split_votes_without_a_server),
    E2E_TEST(test_a_late_renewal),
};

int main(void)
{
    static const struct e2e_plan plan = {
        .name = "quorum_rivals", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
