/* redis-quorum:// with all servers there: what a lock does on one Redis it does on three and on
 * five that know nothing of each other. */
#include "harness_session.h"
#include "multi_locks.h"
#include "quorum.h"

enum { SOON_MS = 8000 };

/* How many servers there are: each test runs with three and with five. */
static const int sizes[] = {3, 5};

static struct quorum_front start(struct world *w, int count, struct quorum **q)
{
    *q = quorum_start(w, count);
    return quorum_front(*q, NULL);
}

static int majority(const struct quorum *q)
{
    return q->count / 2 + 1;
}

static void one_life(struct world *w, struct quorum *q, struct front *fe)
{
    const char *token = token_new(w);
    struct reply *r = lock_put(fe, "life", token, "ttl_ms=60000&note=mine");

    expect_status(r, 201);
    json_int_t fence = reply_int(r, "fencing_token");
    expect_between(r, "remaining_ms", 55000, 59398); /* less the drift of 602 ms */
    expect_true(r, fence > 0);
    assert_true(quorum_holds(q, "life") >= majority(q));
    r = lock_put(fe, "life", token, "ttl_ms=60000&note=mine");
    expect_status(r, 200);
    expect_int(r, "fencing_token", fence);
    expect_str(r, "note", "mine");
    expect_between(r, "remaining_ms", 50000, 59398);
    r = lock_put(fe, "life", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.note", "mine");
    r = lock_renew(fe, "life", token, "ttl_ms=90000");
    expect_status(r, 200);
    expect_int(r, "fencing_token", fence);
    expect_between(r, "remaining_ms", 80000, 89098);
    r = lock_release(fe, "life", token);
    expect_status(r, 200);
    expect_str(r, "state", "released");
    expect_status(lock_release(fe, "life", token), 200);
    expect_problem(lock_put(fe, "life", token, NULL), 410, "lease-ended");
    expect_problem(lock_renew(fe, "life", token, NULL), 410, "lease-ended");
    wait_until(quorum_holds(q, "life") == 0, SOON_MS);
}

static void test_the_life_of_a_lease(struct world *w)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct quorum *q;
        struct quorum_front front = start(w, sizes[i], &q);

        one_life(w, q, front.fe);
    }
}

/* Each front end proposes tokens by the clocks of the servers. */
static void test_tokens_grow_over_front_ends(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front fronts[] = {quorum_front(q, NULL), quorum_front(q, NULL)};
    json_int_t last = 0;

    for (int i = 0; i < 40; i++) {
        const char *token = token_new(w);
        struct reply *r = lock_put(fronts[i % 2].fe, "growing", token, "ttl_ms=30000");

        expect_status(r, 201);
        expect_true(r, reply_int(r, "fencing_token") > last);
        last = reply_int(r, "fencing_token");
        expect_status(lock_release(fronts[(i + i / 2) % 2].fe, "growing", token), 200);
    }
}

/* The server makes the token. */
static void test_post(struct world *w)
{
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);
    struct reply *r = http(front.fe, "POST", lock_path(w, "made", "?ttl_ms=60000"), NULL);

    expect_status(r, 201);
    const char *token = reply_str(r, "lease_token");
    expect_problem(lock_put(front.fe, "made", token_new(w), NULL), 423, "locked");
    expect_status(lock_put(front.fe, "made", token, "ttl_ms=60000"), 200);
    expect_status(lock_release(front.fe, "made", token), 200);
    expect_problem(lock_put(front.fe, "made", token, NULL), 410, "lease-ended");
}

/* A DELETE that overtakes its PUT wins. */
static void test_a_token_that_was_deleted_first(struct world *w)
{
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);
    const char *token = token_new(w);

    expect_problem(lock_release(front.fe, "early", token), 410, "lease-ended");
    expect_problem(lock_put(front.fe, "early", token, NULL), 410, "lease-ended");
    assert_int_equal(quorum_holds(q, "early"), 0);
}

/* Two of three servers have lost the lease: whichever replies last, that is told. */
static void test_a_token_of_a_lost_lease(struct world *w)
{
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);

    for (int i = 0; i < 12; i++) {
        const char *token = token_new(w), *lock = text(w, "lost-%d", i);

        expect_status(lock_put(front.fe, lock, token, "ttl_ms=60000"), 201);
        wait_until(quorum_holds(q, lock) == 3, SOON_MS);
        for (int server = 0; server < 3; server++)
            if (server != i % 3)
                redis_ok(q->server[server], "DEL %s", lock);
        expect_problem(lock_release(front.fe, lock, token), 410, "lease-ended");
        wait_until(quorum_holds(q, lock) == 0, SOON_MS); /* at the third server, too */
    }
}

static void test_looks(struct world *w)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct quorum *q;
        struct quorum_front front = start(w, sizes[i], &q);
        const char *token = token_new(w);
        struct reply *r = lock_look(front.fe, "seen");

        expect_status(r, 200);
        expect_bool(r, "locked", false);
        expect_int(r, "quorum.nodes", sizes[i]);
        expect_int(r, "quorum.held", 0);
        json_int_t fence = reply_int(lock_put(front.fe, "seen", token, "ttl_ms=60000&note=me"),
                                     "fencing_token");
        /* A majority has it for less than the server that replies first of those that do. */
        wait_until(quorum_holds(q, "seen") == sizes[i], SOON_MS);
        for (int k = 0; k < majority(q) - 1; k++)
            redis_ok(q->server[k], "PEXPIRE seen 600000");
        redis_freeze(q->server[sizes[i] - 1]);
        r = lock_look(front.fe, "seen");
        redis_thaw(q->server[sizes[i] - 1]);
        expect_bool(r, "locked", true);
        expect_str(r, "holders.0.note", "me");
        expect_between(r, "remaining_ms", 50000, 60000);
        expect_between(r, "quorum.held", majority(q), sizes[i]);
        expect_bool(r, "quorum.undecided", false);
        r = http(front.fe, "GET", lock_path(w, "seen", ""), token);
        expect_str(r, "lease.state", "held");
        expect_status(
            http(front.fe, "GET",
                 lock_path(w, "seen", text(w, "/fencing-tokens/%lld", (long long)fence)), NULL),
            200);
        expect_problem(http(front.fe, "GET", lock_path(w, "seen", "/fencing-tokens/17"), NULL),
                       409, "fencing-token-stale");
        expect_status(lock_release(front.fe, "seen", token), 200);
        expect_problem(
            http(front.fe, "GET",
                 lock_path(w, "seen", text(w, "/fencing-tokens/%lld", (long long)fence)), NULL),
            409, "fencing-token-stale");
    }
}

/* What some servers hold and no majority does is not shown as held. */
static void test_a_minority_is_undecided(struct world *w)
{
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);

    assert_true(redisson_lock(q->server[1], "minor", JAVA_HOLDER, 60000));
    struct reply *r = lock_look(front.fe, "minor");
    expect_bool(r, "locked", false);
    wait_until(reply_int(r = lock_look(front.fe, "minor"), "quorum.held") == 1, SOON_MS);
    expect_bool(r, "quorum.undecided", true);
    quorum_hold(front.fe, "minor", "");
}

static void test_readers_and_writers(struct world *w)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct quorum *q;
        struct quorum_front front = start(w, sizes[i], &q);
        const char *read[] = {token_new(w), token_new(w)}, *write = token_new(w);
        json_int_t last = 0;

        for (int k = 0; k < 2; k++) {
            struct reply *r = lock_put(front.fe, "shared", read[k], "kind=read&ttl_ms=60000");
            expect_status(r, 201);
            expect_true(r, reply_int(r, "fencing_token") > last);
            last = reply_int(r, "fencing_token");
        }
        for (int k = 0; k < 2; k++)
            expect_status(
                http(front.fe, "GET",
                     lock_path(w, "shared",
                               text(w, "/fencing-tokens/%lld", (long long)(last + k - 1))),
                     NULL),
                k == 1 ? 200 : 409);
        expect_problem(lock_put(front.fe, "shared", write, "kind=write"), 423, "locked");
        expect_int(lock_look(front.fe, "shared"), "holders.1.hold_count", 1);
        expect_status(lock_renew(front.fe, "shared", read[0], "ttl_ms=60000"), 200);
        for (int k = 0; k < 2; k++)
            expect_status(lock_release(front.fe, "shared", read[k]), 200);
        struct reply *r = lock_put(front.fe, "shared", write, "kind=write&ttl_ms=60000");
        expect_status(r, 201);
        expect_true(r, reply_int(r, "fencing_token") > last);
        expect_status(lock_put(front.fe, "shared", write, "kind=write&ttl_ms=60000"), 200);
        expect_problem(lock_put(front.fe, "shared", token_new(w), "kind=read"), 423, "locked");
        expect_status(lock_release(front.fe, "shared", write), 200);
        wait_until(quorum_holds(q, "shared") == 0, SOON_MS);
    }
}

static bool shows_holder(struct reply *look, const char *note)
{
    json_t *holders = reply_get(look, "holders"), *holder;
    size_t i;

    json_array_foreach(holders, i, holder) {
        if (strcmp(json_string_value(json_object_get(holder, "note")), note) == 0)
            return true;
    }
    return false;
}

/* Each reader is at a majority and no server has all of them: GET shows them all. */
static void test_readers_that_no_server_has_all(struct world *w)
{
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);

    for (int i = 0; i < 3; i++) {
        proxy_set(front.proxy[i], PROXY_RESET);
        wait_until(strcmp(quorum_state(front.fe, i), "down") == 0, SOON_MS);
        quorum_hold(front.fe, "parts", text(w, "?kind=read&ttl_ms=100000&note=reader-%d", i));
        proxy_set(front.proxy[i], PROXY_PASS);
        wait_until(quorum_all_up(front.fe), SOON_MS);
    }
    struct reply *r;
    /* No two servers know it: 503 where one of them is late. */
    wait_until((r = lock_look(front.fe, "parts"))->status == 200, SOON_MS);
    expect_bool(r, "locked", true);
    for (int i = 0; i < 3; i++)
        expect_true(r, shows_holder(r, text(w, "reader-%d", i)));
    expect_true(r, json_array_size(reply_get(r, "holders")) == 3);
}

static void test_several_locks_at_once(struct world *w)
{
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);
    const char *token = token_new(w), *other = token_new(w);
    struct reply *r = multi_put(front.fe, NULL, token, "one two", ", \"ttl_ms\": 60000");

    expect_status(r, 201);
    expect_true(r, multi_fence(r, "one") > 0 && multi_fence(r, "one") == multi_fence(r, "two"));
    json_int_t fence = multi_fence(r, "one");
    r = multi_put(front.fe, NULL, token, "one two", ", \"ttl_ms\": 60000");
    expect_status(r, 200);
    expect_true(r, multi_fence(r, "two") == fence);
    expect_problem(multi_put(front.fe, NULL, other, "two three", NULL), 423, "locked");
    expect_problem(lock_put(front.fe, "one", token_new(w), NULL), 423, "locked");
    expect_status(lock_put(front.fe, "three", token_new(w), NULL), 201);
    expect_status(multi_ask(front.fe, "GET", token, NULL), 200);
    expect_status(multi_ask(front.fe, "PATCH", token, "ttl_ms=60000"), 200);
    expect_status(multi_ask(front.fe, "DELETE", token, NULL), 200);
    wait_until(quorum_holds(q, "one") + quorum_holds(q, "two") == 0, SOON_MS);
    expect_problem(multi_put(front.fe, NULL, token, "one two", NULL), 410, "lease-ended");
}

/* Of several readers the one with this fencing token. */
static void test_force_unlock_of_a_reader(struct world *w)
{
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);
    const char *token[] = {token_new(w), token_new(w)}, *path;
    json_int_t fence[2];

    for (int k = 0; k < 2; k++)
        fence[k] = reply_int(lock_put(front.fe, "readers", token[k], "ttl_ms=60000&kind=read"),
                             "fencing_token");
    path = lock_path(w, "readers", "/force-unlock");
    struct reply *r = HTTP(front.fe, .method = "POST", .path = path,
                           .headers = {"If-Match: \"17\""});
    expect_problem(r, 412, "precondition-failed");
    r = HTTP(front.fe, .method = "POST", .path = path,
             .headers = {text(w, "If-Match: \"%lld\"", (long long)fence[0])});
    expect_bool(r, "unlocked", true);
    expect_problem(lock_put(front.fe, "readers", token[0], "kind=read"), 410, "lease-ended");
    expect_status(lock_renew(front.fe, "readers", token[1], "ttl_ms=60000"), 200);
}

static void test_force_unlock(struct world *w)
{
    static const struct {
        const char *name, *query;
        int leases;
    } rows[] = {{"forced/lock", "ttl_ms=60000", 1},
                {"forced/write", "ttl_ms=60000&kind=write", 1},
                {"forced/read", "ttl_ms=60000&kind=read", 3},
                {"ahead/lock", "ttl_ms=60000", 1}, /* their tokens are ahead of the clocks */
                {"ahead/read", "ttl_ms=60000&kind=read", 3}};
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);

    for (int k = 0; k < 3; k++)
        redis_do(q->server[k], "MSET %s 4102444800000000 %s 4102444800000000",
                 "redisson_lock_token:{ahead/lock}", "redisson_lock_token:{ahead/read}");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *token[3];
        const char *path = lock_path(w, rows[i].name, "/force-unlock");
        for (int k = 0; k < rows[i].leases; k++) {
            token[k] = token_new(w);
            expect_status(lock_put(front.fe, rows[i].name, token[k], rows[i].query), 201);
        }
        struct reply *r = HTTP(front.fe, .method = "POST", .path = path,
                               .headers = {"If-Match: \"17\""});
        if (rows[i].leases == 1)
            expect_problem(r, 412, "precondition-failed");
        r = http(front.fe, "POST", path, NULL);
        expect_status(r, 200);
        expect_bool(r, "unlocked", true);
        wait_until(quorum_holds(q, rows[i].name) == 0, SOON_MS);
        for (int k = 0; k < rows[i].leases; k++)
            expect_problem(lock_put(front.fe, rows[i].name, token[k], rows[i].query), 410,
                           "lease-ended");
        expect_problem(lock_renew(front.fe, rows[i].name, token[0], NULL), 410, "lease-ended");
        expect_bool(http(front.fe, "POST", path, NULL), "unlocked", false);
        expect_status(lock_put(front.fe, rows[i].name, token_new(w), rows[i].query), 201);
    }
}

/* The holder of several locks releases the others of them when it learns that one was taken. */
static void test_force_unlock_of_one_of_several(struct world *w)
{
    static const char *const forced[] = {"one", "two"};
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);

    for (int i = 0; i < 4; i++) {
        const char *token = token_new(w);
        struct reply *r = multi_put(front.fe, NULL, token, "one two", ", \"ttl_ms\": 60000");

        expect_status(r, 201);
        r = http(front.fe, "POST", lock_path(w, forced[i % 2], "/force-unlock"), NULL);
        expect_bool(r, "unlocked", true);
        wait_until(quorum_holds(q, forced[i % 2]) == 0, SOON_MS);
        r = i < 2 ? multi_ask(front.fe, "DELETE", token, NULL)
                  : multi_ask(front.fe, "PATCH", token, "ttl_ms=60000");
        expect_problem(r, 410, "lease-ended");
        expect_str(r, "reason", "forced");
        wait_until(quorum_holds(q, "one") + quorum_holds(q, "two") == 0, SOON_MS);
        expect_problem(multi_put(front.fe, NULL, token, "one two", NULL), 410, "lease-ended");
    }
}

/* --- listings ----------------------------------------------------------------------------- */

enum { LISTED = 60 };

/* Counts how often each lock is listed, in pages of seven. */
static void expect_each_once(struct world *w, struct front *fe)
{
    int seen[LISTED] = {0};
    const char *cursor = "";

    while (cursor != NULL) {
        struct reply *r = http(fe, "GET",
                               text(w, "/v1/locks?prefix=all/&limit=7%s%s",
                                    cursor[0] != '\0' ? "&cursor=" : "", cursor),
                               NULL);
        json_t *lock;
        size_t i;
        expect_status(r, 200);
        json_array_foreach(reply_get(r, "locks"), i, lock) {
            const char *name = json_string_value(json_object_get(lock, "lock"));
            seen[atoi(name + strlen("all/"))]++;
        }
        cursor = reply_str(r, "next_cursor");
    }
    for (int i = 0; i < LISTED; i++)
        assert_int_equal(seen[i], 1);
}

/* Locks that are at all servers or at two of them, with all servers there and without each. */
static void test_listing(struct world *w)
{
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);

    for (int i = 0; i < LISTED; i++) {
        expect_status(lock_put(front.fe, text(w, "all/%d", i), token_new(w),
                               i % 5 == 0 ? "ttl_ms=110000&kind=read" : "ttl_ms=110000"),
                      201);
        if (i % 3 == 0) {
            wait_until(quorum_holds(q, text(w, "all/%d", i)) == 3, SOON_MS);
            redis_ok(q->server[i / 3 % 3], "DEL all/%d", i);
        }
    }
    assert_true(redisson_lock(q->server[1], "all/0x", JAVA_HOLDER, 60000));
    expect_each_once(w, front.fe);
    for (int down = 0; down < 3; down++) {
        /* A lock that this server and one other have has no majority without it. */
        struct quorum_front other = quorum_front(q, NULL);
        proxy_set(other.proxy[down], PROXY_RESET);
        wait_until(strcmp(quorum_state(other.fe, down), "down") == 0, SOON_MS);
        struct reply *r = http(other.fe, "GET", "/v1/locks?prefix=all/&limit=1000", NULL);
        expect_status(r, 200);
        expect_true(r, json_array_size(reply_get(r, "locks")) >= LISTED * 2 / 3);
    }
}

/* --- what is not offered ------------------------------------------------------------------ */

static void test_what_is_not_offered(struct world *w)
{
    static const struct {
        const char *method, *path, *body, *word;
    } rows[] = {
        {"PUT", "/v1/locks/x", "{\"kind\": \"fair\"}", "fair"},
        {"PUT", "/v1/locks/x", "{\"owner\": \"me\"}", "reentrant"},
        {"POST", "/v1/sessions", "{\"on_deadlock\": \"refuse\"}", "deadlocks"},
        {"GET", "/v1/locks?order=held", NULL, "census"},
        {"PUT", "/v1/semaphores/x", "{\"permits\": 3}", "semaphores"},
        {"GET", "/v1/semaphores", NULL, "semaphores"},
        {"PUT", "/v1/permit-semaphores/x", "{\"permits\": 3}", "semaphores"},
        {"PUT", "/v1/latches/x", "{\"count\": 3}", "latches"},
        {"LOCK", "/terraform/x", "{\"ID\": \"1\"}", "protocol"},
    };
    struct quorum *q;
    struct quorum_front front = start(w, 3, &q);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reply *r = HTTP(front.fe, .method = rows[i].method, .path = rows[i].path,
                               .token = token_new(w), .body = rows[i].body);
        expect_problem(r, 501, "not-supported");
        expect_detail(r, rows[i].word);
    }
    struct reply *r = lock_put(front.fe, "x", token_new(w), "ttl_ms=120001");
    expect_problem(r, 400, "malformed-request");
    expect_int(r, "limit", 120000);
    expect_status(lock_put(front.fe, "x", token_new(w), "ttl_ms=120000"), 201);
}

/* A majority has another type of key where the record of a lease should be: what the lease is,
 * nobody knows, and the front end goes on. */
static void with_records_of_another_type(struct world *w, int count)
{
    struct quorum *q = quorum_start(w, count);
    struct quorum_front a = quorum_front(q, NULL);
    struct session s = session_new(a.fe, "ttl_ms=60000");
    struct reply *r = session_put(a.fe, &s, "odd", token_new(w), "ttl_ms=60000");
    const char *record = text(w, "rlockd:lease:{odd}:%s", reply_str(r, "lease_id"));

    expect_status(r, 201);
    wait_until(quorum_holds(q, record) == count, SOON_MS);
    for (int i = 0; i < count; i++) {
        redis_ok(q->server[i], "DEL %s", record);
        redis_do(q->server[i], "HSET %s a b", record);
        redis_do(q->server[i], "PEXPIRE %s 60000", record);
    }
    for (int i = 0; i < 3; i++) {
        r = keep_alive(a.fe, &s, NULL);
        expect_true(r, r->status == 200 || r->status == 503);
        assert_int_equal(losses_len(r), 0);
    }
    expect_status(http(a.fe, "GET", "/livez", NULL), 200);
}

static void test_records_of_another_type(struct world *w)
{
    with_records_of_another_type(w, 3);
    with_records_of_another_type(w, 5);
}

static const struct e2e_test tests[] = {
    E2E_TEST(test_the_life_of_a_lease),
    E2E_TEST(test_tokens_grow_over_front_ends),
    E2E_TEST(test_post),
    E2E_TEST(test_a_token_that_was_deleted_first),
    E2E_TEST(test_a_token_of_a_lost_lease),
    E2E_TEST(test_looks),
    E2E_TEST(test_a_minority_is_undecided),
    E2E_TEST(test_readers_and_writers),
    E2E_TEST(test_readers_that_no_server_has_all),
    E2E_TEST(test_several_locks_at_once),
    E2E_TEST(test_force_unlock),
    E2E_TEST(test_force_unlock_of_one_of_several),
    E2E_TEST(test_force_unlock_of_a_reader),
    E2E_TEST(test_listing),
    E2E_TEST(test_records_of_another_type),
    E2E_TEST(test_what_is_not_offered),
};

int main(void)
{
    static const struct e2e_plan plan = {
        .name = "quorum_locks", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
