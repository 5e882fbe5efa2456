/* Several locks at once, all or none: what is asked for, answered, and left in Redis. */
#include "multi_locks.h"

static void test_all_of_them(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = multi_put(w->a, NULL, token, "all/b all/a",
                                ", \"ttl_ms\": 20000, \"note\": \"move\"");
    const char *id = reply_str(r, "lease_id");

    expect_status(r, 201);
    expect_str(r, "state", "held");
    expect_str(r, "kind", "lock");
    expect_int(r, "ttl_ms", 20000);
    expect_between(r, "remaining_ms", 15000, 20000);
    expect_bool(r, "watchdog", false);
    expect_str(r, "note", "move");
    expect_str(r, "locks.0.lock", "all/a");
    expect_str(r, "locks.1.lock", "all/b");
    expect_int(r, "locks.1.hold_count", 1);
    for (int i = 0; i < 2; i++) {
        const char *lock = i == 0 ? "all/a" : "all/b";
        struct reply *look = lock_look(w->b, lock);

        expect_str(look, "holders.0.lease_id", id);
        expect_str(look, "holders.0.note", "move");
        expect_str(look, "kind", "lock");
        expect_int(look, "fencing_token", multi_fence(r, lock));
        expect_status(
            http(w->a, "GET",
                 lock_path(w, lock,
                           text(w, "/fencing-tokens/%lld", (long long)multi_fence(r, lock))),
                 NULL),
            200);
        expect_problem(lock_put(w->b, lock, token_new(w), NULL), 423, "locked");
    }
    r = multi_ask(w->b, "DELETE", token, NULL);
    expect_status(r, 200);
    expect_str(r, "locks.0", "all/a");
    expect_str(r, "locks.1", "all/b");
    expect_str(r, "lease_id", id);
    expect_str(r, "state", "released");
    expect_int(r, "hold_count", 0);
    expect_free(w, "all/a all/b");
}

static void test_or_none(struct world *w)
{
    struct reply *held = lock_put(w->a, "none/b", token_new(w), "ttl_ms=60000&note=mine");
    struct reply *r = multi_put(w->b, NULL, token_new(w), "none/a none/b none/c", NULL);

    expect_problem(r, 423, "locked");
    expect_str(r, "lock", "none/b");
    expect_str(r, "holder.lease_id", reply_str(held, "lease_id"));
    expect_str(r, "holder.note", "mine");
    expect_between(r, "remaining_ms", 1, 60000);
    expect_free(w, "none/a none/c");
    r = multi_put(w->b, NULL, token_new(w), "none/a none/b", ", \"wait_ms\": 300");
    expect_problem(r, 423, "locked");
    expect_free(w, "none/a");
    wait_until(waiter_count(w->a, "none/b") == 0, 1000);
    expect_status(http(w->a, "POST", "/v1/locks/none%2Fb/force-unlock", NULL), 200);
    stays_true(!redis_has(w->redis, "none/a") && !redis_has(w->redis, "none/b"), 200);
}

static void test_what_is_left_in_redis(struct world *w)
{
    const char *token = token_new(w), *id;
    struct listener *listener = listener_start(w->redis, "redisson_lock__channel:{wire:b}");
    struct reply *r = multi_put(w->a, NULL, token, "wire:a wire:b wire:{c}", NULL);
    static const char *const names[] = {"wire:a", "wire:b", "wire:{c}"};

    expect_status(r, 201);
    id = reply_str(r, "lease_id");
    for (int i = 0; i < 3; i++) {
        redisReply *hash = redis_do(w->redis, "HGETALL %s", names[i]);
        const char *counter = i == 2 ? "redisson_lock_token:wire:{c}"
                                     : text(w, "redisson_lock_token:{%s}", names[i]);

        assert_int_equal(hash->elements, 2);
        assert_string_equal(hash->element[0]->str, text(w, "%s:m", id));
        assert_string_equal(hash->element[1]->str, "1");
        assert_in_range(redis_int(w->redis, "PTTL %s", names[i]), 20000, 30000);
        assert_string_equal(redis_str(w->redis, "GET %s", counter),
                            text(w, "%lld", (long long)multi_fence(r, names[i])));
        assert_false(redisson_lock(w->redis, names[i], JAVA_HOLDER, 30000));
    }
    assert_in_range(redis_int(w->redis, "PTTL rlockd:lease:{%s}:%s:m", names[0], id), 80000,
                    90000);
    assert_null(listener_next(listener, 50));
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
    assert_string_equal(listener_next(listener, 5000), "0");
    assert_null(listener_next(listener, 100));
    for (int i = 0; i < 3; i++)
        assert_false(redis_has(w->redis, names[i]));
}

static void test_a_key_prefix(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--key-prefix", "shop:", NULL);
    const char *token = token_new(w), *other = token_new(w);
    struct reply *r = multi_put(fe, NULL, token, "pre/a pre/b", NULL);
    struct call *call;

    expect_status(r, 201);
    assert_true(redis_has(w->redis, "shop:pre/a") && redis_has(w->redis, "shop:pre/b"));
    r = multi_put(fe, NULL, other, "pre/b pre/c", NULL);
    expect_problem(r, 423, "locked");
    expect_str(r, "lock", "pre/b");
    expect_str(multi_ask(fe, "GET", token, NULL), "locks.1.lock", "pre/b");
    call = multi_park(fe, NULL, other, "pre/b pre/c", ", \"wait_ms\": 20000");
    expect_str(multi_ask(fe, "DELETE", token, NULL), "locks.0", "pre/a");
    expect_status(call_await(call, 5000), 201);
    assert_true(redis_has(w->redis, "shop:pre/c"));
}

static void test_the_same_again(struct world *w)
{
    const char *token = token_new(w);
    struct reply *first = multi_put(w->a, NULL, token, "same/a same/b", ", \"ttl_ms\": 20000");
    struct reply *r;

    expect_status(first, 201);
    for (int i = 0; i < 3; i++) {
        r = multi_put(i % 2 ? w->a : w->b, NULL, token,
                      i % 2 ? "same/a same/b" : "same/b same/a", ", \"ttl_ms\": 20000");
        expect_status(r, 200);
        expect_str(r, "locks.0.lock", "same/a");
        expect_str(r, "locks.1.lock", "same/b");
        assert_int_equal(multi_fence(r, "same/a"), multi_fence(first, "same/a"));
        assert_int_equal(multi_fence(r, "same/b"), multi_fence(first, "same/b"));
        assert_string_equal(redis_do(w->redis, "HVALS same/a")->element[0]->str, "1");
    }
    static const char *const sets[] = {"same/a", "same/a same/b same/c", "same/a same/c"};
    for (size_t i = 0; i < COUNT_OF(sets); i++)
        expect_problem(multi_put(w->b, NULL, token, sets[i], NULL), 422, "token-reused");
    expect_problem(multi_put(w->b, NULL, token, "same/a same/b", ", \"kind\": \"write\""), 422,
                   "token-reused");
    expect_status(multi_put(w->b, NULL, token, "same/a same/b", NULL), 200);
    expect_status(multi_ask(w->b, "DELETE", token, NULL), 200);
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
    r = multi_put(w->a, NULL, token, "same/a same/b", NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "released");
    expect_free(w, "same/a same/b same/c");
}

static void test_a_token_of_one_lock_is_not_of_several(struct world *w)
{
    const char *one = token_new(w), *several = token_new(w);

    expect_status(lock_put(w->a, "mix/a", one, NULL), 201);
    expect_status(multi_put(w->a, NULL, several, "mix/b", NULL), 201);
    expect_problem(multi_put(w->b, NULL, one, "mix/a", NULL), 423, "locked");
    expect_problem(multi_put(w->b, NULL, one, "mix/c", NULL), 422, "token-reused");
    expect_problem(multi_ask(w->b, "PATCH", one, NULL), 410, "lease-ended");
    expect_problem(multi_ask(w->b, "GET", one, NULL), 410, "lease-ended");
    expect_problem(multi_ask(w->b, "DELETE", one, NULL), 410, "lease-ended");
    expect_problem(lock_put(w->b, "mix/b", several, NULL), 423, "locked");
    expect_problem(lock_put(w->b, "mix/b", several, "kind=read"), 409, "wrong-kind");
    expect_problem(lock_renew(w->b, "mix/b", several, NULL), 410, "lease-ended");
    expect_problem(lock_release(w->b, "mix/b", several), 410, "lease-ended");
    expect_status(lock_put(w->b, "mix/a", one, NULL), 200);
    expect_status(multi_put(w->b, NULL, several, "mix/b", NULL), 200);
}

static void test_delete_before_put_wins(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = multi_ask(w->a, "DELETE", token, NULL);

    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "unknown");
    expect_problem(multi_put(w->b, NULL, token, "early/a early/b", NULL), 410, "lease-ended");
    expect_problem(multi_put(w->a, NULL, token, "early/c", ", \"wait_ms\": 5000"), 410,
                   "lease-ended");
    expect_problem(multi_ask(w->a, "PATCH", token, NULL), 410, "lease-ended");
    expect_problem(multi_ask(w->a, "GET", token, NULL), 410, "lease-ended");
    expect_status(lock_put(w->a, "early/a", token, NULL), 201); /* another lease */
    expect_status(lock_release(w->a, "early/a", token), 200);
    expect_free(w, "early/a early/b early/c");
    expect_problem(multi_ask(w->a, "GET", token_new(w), NULL), 410, "lease-ended");
}

static void test_renew_and_look(struct world *w)
{
    const char *token = token_new(w);
    struct reply *first = multi_put(w->a, NULL, token, "long/a long/b", ", \"ttl_ms\": 5000"),
                 *r;

    r = multi_ask(w->b, "PATCH", token, "ttl_ms=70000");
    expect_status(r, 200);
    expect_int(r, "ttl_ms", 70000);
    expect_between(r, "remaining_ms", 60000, 70000);
    assert_int_equal(multi_fence(r, "long/b"), multi_fence(first, "long/b"));
    assert_in_range(redis_int(w->redis, "PTTL long/a"), 60000, 70000);
    assert_in_range(redis_int(w->redis, "PTTL long/b"), 60000, 70000);
    r = multi_ask(w->a, "GET", token, NULL);
    expect_status(r, 200);
    expect_str(r, "state", "held");
    expect_str(r, "locks.0.lock", "long/a");
    expect_int(r, "ttl_ms", 70000);
    /* What is left is what is left of the shortest. */
    redis_ok(w->redis, "PEXPIRE long/b 9000");
    expect_between(multi_ask(w->a, "GET", token, NULL), "remaining_ms", 1, 9000);
    r = multi_ask(w->a, "PATCH", token, "ttl_ms=99");
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "ttl_ms");
    expect_problem(multi_ask(w->a, "DELETE", token, "x=1"), 400, "malformed-request");
    expect_problem(multi_ask(w->a, "DELETE", NULL, NULL), 400, "malformed-request");
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
}

static void test_one_lost_is_all_lost(struct world *w)
{
    static const char *const methods[] = {"PUT", "PATCH", "DELETE", "GET"};

    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        for (int forced = 0; forced < 2; forced++) {
            const char *token = token_new(w);
            struct reply *r;

            expect_status(multi_put(w->a, NULL, token, "lost/a lost/b lost/c", NULL), 201);
            if (forced)
                expect_status(force_unlock(w->a, "lost/b"), 200);
            else
                redis_ok(w->redis, "DEL lost/b");
            r = strcmp(methods[i], "PUT") == 0
                    ? multi_put(w->b, NULL, token, "lost/a lost/b lost/c", NULL)
                    : multi_ask(w->b, methods[i], token, NULL);
            expect_problem(r, 410, "lease-ended");
            expect_str(r, "reason", forced ? "forced" : "expired");
            expect_true(r, json_array_size(reply_get(r, "locks")) == 3);
            expect_free(w, "lost/a lost/b lost/c");
            expect_problem(multi_ask(w->a, "PATCH", token, NULL), 410, "lease-ended");
        }
    }
}

static void test_a_lost_one_that_another_has_stays_his(struct world *w)
{
    const char *token = token_new(w), *other = token_new(w);

    expect_status(multi_put(w->a, NULL, token, "stolen/a stolen/b", NULL), 201);
    expect_status(force_unlock(w->a, "stolen/a"), 200);
    expect_status(lock_put(w->b, "stolen/a", other, NULL), 201);
    expect_problem(multi_ask(w->a, "DELETE", token, NULL), 410, "lease-ended");
    expect_status(lock_put(w->b, "stolen/a", other, NULL), 200);
    expect_free(w, "stolen/b");
}

static void test_expiry(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(multi_put(w->a, NULL, token, "end/a end/b", ", \"ttl_ms\": 200"), 201);
    wait_until(!redis_has(w->redis, "end/a") && !redis_has(w->redis, "end/b"), 2000);
    r = multi_ask(w->b, "PATCH", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "expired");
}

static void test_bad_names(struct world *w)
{
    static const struct {
        const char *body, *word;
    } wrong[] = {
        {"{}", "locks"},
        {"{\"locks\": []}", "locks"},
        {"{\"locks\": \"a\"}", "locks"},
        {"{\"locks\": [\"bad/a\", 1]}", "locks"},
        {"{\"locks\": [\"bad/a\", \"\"]}", "locks"},
        {"{\"locks\": [\"bad/a\", \"x\\ny\"]}", "locks"},
        {"{\"locks\": [\"bad/a\", \"bad/b\", \"bad/a\"]}", "locks"},
        {"{\"locks\": [\"bad/a\", \"rlockd:x\"]}", "locks"},
        {"{\"locks\": [\"redisson_lock_token:{x}\"]}", "locks"},
        {"{\"locks\": [\"bad/a\"], \"kind\": \"fair\"}", "kind"},
        {"{\"locks\": [\"bad/a\"], \"kind\": \"multi\"}", "kind"},
        {"{\"locks\": [\"bad/a\"], \"owner\": \"x\"}", "owner"},
        {"{\"locks\": [\"bad/a\"], \"ttl_ms\": 99}", "ttl_ms"},
        {"{\"locks\": [\"bad/a\"], \"wait_ms\": -1}", "wait_ms"},
        {"{\"lock\": \"bad/a\"}", "lock"},
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct reply *r = HTTP(w->a, .method = "PUT", .path = "/v1/multi-locks",
                               .token = token_new(w), .body = wrong[i].body);

        expect_problem(r, 400, "malformed-request");
        expect_detail(r, wrong[i].word);
    }
    struct reply *r = HTTP(w->a, .method = "PUT", .path = "/v1/locks/bad%2Fa?locks=bad/b",
                           .token = token_new(w));
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "locks");
    char name[514];
    memset(name, 'n', 513);
    name[513] = '\0';
    r = multi_put(w->a, NULL, token_new(w), text(w, "bad/a %s", name), NULL);
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "locks");
    r = multi_ask(w->a, "PUT", token_new(w), "locks=bad/a&locks=%ff");
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "locks");
    expect_problem(multi_put(w->a, NULL, NULL, "bad/a", NULL), 400, "malformed-request");
    expect_free(w, "bad/a bad/b");
}

static void test_how_many(struct world *w)
{
    const char *names = "", *token = token_new(w);
    struct reply *r;

    for (int i = 0; i < 32; i++)
        names = text(w, "%s%smany/%02d", names, i ? " " : "", i);
    r = multi_put(w->a, NULL, token, names, NULL);
    expect_status(r, 201);
    expect_true(r, json_array_size(reply_get(r, "locks")) == 32);
    expect_status(multi_ask(w->a, "PATCH", token, NULL), 200);
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
    expect_free(w, names);
    r = multi_put(w->a, NULL, token_new(w), text(w, "%s many/32", names), NULL);
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "locks");
}

/* As long as a body may be. */
static void test_long_names(struct world *w)
{
    const char *names = "", *token = token_new(w);
    char name[513];

    memset(name, 'n', sizeof(name) - 1);
    name[512] = '\0';
    for (int i = 0; i < 31; i++) {
        name[0] = (char)('A' + i % 26);
        name[1] = (char)('a' + i / 26);
        names = text(w, "%s%s%s", names, i ? " " : "", name);
    }
    expect_status(multi_put(w->a, NULL, token, names, NULL), 201);
    expect_status(multi_put(w->b, NULL, token, names, NULL), 200);
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
    expect_free(w, name);
}

static void test_names_in_the_query(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = multi_ask(w->a, "PUT", token,
                                "locks=query/a,b&locks=query/c&ttl_ms=20000");

    expect_status(r, 201);
    expect_str(r, "locks.0.lock", "query/a,b");
    expect_str(r, "locks.1.lock", "query/c");
    expect_true(r, json_array_size(reply_get(r, "locks")) == 2);
    r = HTTP(w->a, .method = "PUT", .path = "/v1/multi-locks?locks=query/d",
             .token = token_new(w), .body = "{\"locks\": [\"query/e\"]}");
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "locks");
    expect_problem(multi_ask(w->a, "PUT", token_new(w), "locks="), 400, "malformed-request");
    expect_problem(multi_ask(w->a, "PUT", token_new(w), "locks=query/d&locks=query/d"), 400,
                   "malformed-request");
    expect_free(w, "query/d query/e");
}

static void test_a_token_of_the_servers(struct world *w)
{
    struct reply *r = HTTP(w->a, .method = "POST", .path = "/v1/multi-locks",
                           .body = "{\"locks\": [\"post/a\", \"post/b\"]}");
    const char *token = reply_str(r, "lease_token");

    expect_status(r, 201);
    expect_true(r, token != NULL);
    token_watch(w, token);
    assert_string_equal(reply_header(w, r, "Lease-Token"), token);
    r = multi_put(w->b, NULL, token, "post/a post/b", NULL);
    expect_status(r, 200);
    expect_absent(r, "lease_token");
    expect_status(multi_ask(w->b, "DELETE", token, NULL), 200);
    expect_free(w, "post/a post/b");
}

static void test_members_of_other_kinds(struct world *w)
{
    struct reply *r;

    redis_ok(w->redis, "SET other:string 1");
    redis_ok(w->redis, "SET redisson_lock_token:{other:counter} x");
    redis_ok(w->redis, "DEL redisson_lock_token:{other:counter}");
    redis_ok(w->redis, "LPUSH redisson_lock_token:{other:counter} x");
    expect_status(lock_put(w->a, "other:read", token_new(w), "kind=read"), 201);
    expect_status(lock_put(w->a, "other:fair", token_new(w), "kind=fair"), 201);
    static const char *const names[] = {"other:string", "other:counter", "other:read",
                                        "other:fair"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        r = multi_put(w->a, NULL, token_new(w), text(w, "other:a %s", names[i]),
                      ", \"wait_ms\": 5000");
        expect_problem(r, 409, "wrong-kind");
        expect_str(r, "lock", names[i]);
        expect_free(w, "other:a");
    }
    /* No waiting for one where another one can never be had. */
    expect_status(lock_put(w->a, "other:busy", token_new(w), NULL), 201);
    r = multi_put(w->a, NULL, token_new(w), "other:busy other:string", ", \"wait_ms\": 20000");
    expect_problem(r, 409, "wrong-kind");
    expect_str(r, "lock", "other:string");
    assert_int_equal(waiter_count(w->a, "other:busy"), 0);
    expect_status(lock_put(w->a, "other:lock", token_new(w), NULL), 201);
    r = multi_put(w->a, NULL, token_new(w), "other:a other:lock", ", \"kind\": \"read\"");
    expect_problem(r, 409, "wrong-kind");
    expect_str(r, "lock", "other:lock");
    expect_free(w, "other:a");
}

static const char API_TOKENS[] =
    "ci {ci-token-0123456789} lock=ci/ lock=lib/ read=ci/ read=lib/\n"
    "web {web-token-0123456789} lock=web/ read=web/\n";

static void test_api_tokens(struct world *w)
{
    const char *path = tokens_write(w, "tokens", API_TOKENS), *token = token_new(w);
    const char *ci = "Authorization: Bearer ci-token-0123456789";
    const char *web = "Authorization: Bearer web-token-0123456789";
    struct front *fe = front_start(w, "--redis", w->redis->url, "--api-tokens", path, NULL);
    struct request request = {.method = "PUT",
                              .path = "/v1/multi-locks",
                              .token = token,
                              .body = "{\"locks\": [\"ci/a\", \"web/a\"]}",
                              .headers = {ci}};

    expect_problem(http_send(fe, &request), 403, "forbidden");
    expect_free(w, "ci/a web/a");
    request.body = "{\"locks\": [\"ci/a\", \"lib/a\"]}";
    expect_status(http_send(fe, &request), 201);
    request.body = NULL;
    static const char *const methods[] = {"PATCH", "GET", "DELETE"};
    for (int right = 0; right < 2; right++) {
        request.headers[0] = right ? ci : web;
        for (size_t i = 0; i < COUNT_OF(methods); i++) {
            request.method = methods[i];
            if (right)
                expect_status(http_send(fe, &request), 200);
            else
                expect_problem(http_send(fe, &request), 403, "forbidden");
        }
    }
    expect_free(w, "ci/a lib/a");
    request.token = token_new(w);
    expect_problem(http_send(fe, &request), 410, "lease-ended");
    request.headers[0] = NULL;
    expect_problem(http_send(fe, &request), 401, "unauthenticated");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_all_of_them),
        E2E_TEST(test_or_none),
        E2E_TEST(test_what_is_left_in_redis),
        E2E_TEST(test_a_key_prefix),
        E2E_TEST(test_the_same_again),
        E2E_TEST(test_a_token_of_one_lock_is_not_of_several),
        E2E_TEST(test_delete_before_put_wins),
        E2E_TEST(test_renew_and_look),
        E2E_TEST(test_one_lost_is_all_lost),
        E2E_TEST(test_a_lost_one_that_another_has_stays_his),
        E2E_TEST(test_expiry),
        E2E_TEST(test_bad_names),
        E2E_TEST(test_how_many),
        E2E_TEST(test_long_names),
        E2E_TEST(test_names_in_the_query),
        E2E_TEST(test_a_token_of_the_servers),
        E2E_TEST(test_members_of_other_kinds),
        E2E_TEST(test_api_tokens),
    };
    struct e2e_plan plan = {
        .name = "multi-locks", .needs_one_server = true, E2E_TESTS(tests), .front_ends = 2};

    return e2e_run(&plan);
}
