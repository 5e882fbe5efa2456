/* Sessions: open, look, list, end, and who may. */
#include "harness_session.h"

static struct reply *ask(struct front *fe, const char *method, const char *path,
                         const char *session_token)
{
    return HTTP(fe, .method = method, .path = path,
                .headers = {session_token ? text(fe->world, "Session-Token: %s", session_token)
                                          : NULL});
}

static void test_open_with_a_token_of_the_servers(struct world *w)
{
    struct reply *r = session_open(w->a, NULL, NULL);
    const char *token = reply_str(r, "session_token"), *id = reply_str(r, "session_id");
    struct session s = {.token = token, .id = id};

    expect_status(r, 201);
    expect_true(r, token != NULL && id != NULL && strcmp(token, id) != 0);
    token_watch(w, token);
    s.header = text(w, "Session-Token: %s", token);
    assert_string_equal(reply_header(w, r, "Session-Token"), token);
    expect_int(r, "ttl_ms", 30000);
    expect_between(r, "keep_alive_ms", 1000, 15000);
    expect_between(r, "remaining_ms", 29000, 30000);
    /* Once more, elsewhere: it is open, and its token is not said again. */
    r = session_open(w->b, token, NULL);
    expect_status(r, 200);
    expect_str(r, "session_id", id);
    expect_absent(r, "session_token");
    assert_null(reply_header(w, r, "Session-Token"));
    session_hold(w->a, &s, "open-made", NULL);
    const struct reply *all[] = {session_look(w->b, id), keep_alive(w->a, &s, NULL),
                                 http(w->a, "GET", "/v1/sessions", NULL),
                                 http(w->b, "GET", "/metrics", NULL), session_end(w->b, &s)};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        expect_status(all[i], 200);
        expect_true(all[i], strcasestr(all[i]->text, token) == NULL &&
                                strcasestr(all[i]->head, token) == NULL);
    }
    assert_int_equal(
        json_array_size(redis_keys(w->redis, text(w, "rlockd:session:{%s", token))), 0);
    /* A token of the server's own that it does not know any more opens nothing. */
    expect_problem(session_open(w->a, token, NULL), 410, "session-ended");
}

static void test_open_with_a_token_of_ones_own(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = session_open(w->a, token, "ttl_ms=5000&name=host/42");
    const char *id = reply_str(r, "session_id");

    expect_status(r, 201);
    expect_absent(r, "session_token");
    assert_null(reply_header(w, r, "Session-Token"));
    expect_int(r, "ttl_ms", 5000);
    expect_between(r, "keep_alive_ms", 300, 2500);
    for (int i = 0; i < 2; i++) {
        r = session_open(i == 0 ? w->a : w->b, token, "ttl_ms=5000&name=host/42");
        expect_status(r, 200);
        expect_str(r, "session_id", id);
        expect_absent(r, "session_token");
    }
    expect_problem(session_open(w->b, token, "ttl_ms=6000&name=host/42"), 422, "token-reused");
    expect_problem(session_open(w->b, token, "ttl_ms=5000&name=host/43"), 422, "token-reused");
    expect_problem(session_open(w->b, token, "ttl_ms=5000"), 422, "token-reused");
    expect_str(session_look(w->b, id), "name", "host/42");
    /* The same in a body. */
    r = HTTP(w->a, .method = "POST", .path = "/v1/sessions",
             .body = "{\"ttl_ms\": 5000, \"name\": \"host/42\"}",
             .headers = {text(w, "Session-Token: %s", token)});
    expect_status(r, 200);
}

static void test_open_refuses_nonsense(struct world *w)
{
    static const struct {
        const char *query, *body, *field;
    } wrong[] = {
        {"ttl_ms=999", NULL, "ttl_ms"},
        {"ttl_ms=3600001", NULL, "ttl_ms"},
        {"ttl_ms=1e4", NULL, "ttl_ms"},
        {"ttl=5000", NULL, "ttl"},
        {"name=a%0Ab", NULL, "name"},
        {"owner=x", NULL, "owner"},
        {NULL, "{\"ttl_ms\": \"5000\"}", "ttl_ms"},
        {NULL, "{\"name\": 5}", "name"},
        {"ttl_ms=5000", "{\"ttl_ms\": 5001}", "ttl_ms"},
    };
    const char *long_name = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct reply *r;

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        const char *path = wrong[i].query ? text(w, "/v1/sessions?%s", wrong[i].query)
                                          : "/v1/sessions";

        r = HTTP(w->a, .method = "POST", .path = path, .body = wrong[i].body);
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, wrong[i].field);
    }
    expect_status(session_open(w->a, token_new(w), text(w, "name=%s", long_name)), 201);
    r = session_open(w->a, token_new(w), text(w, "name=%sx", long_name));
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "name");
    r = session_open(w->a, "00000000-0000-0000-0000-000000000000", NULL);
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "Session-Token");
    expect_detail(session_open(w->a, "nonsense", NULL), "Session-Token");
    expect_status(session_open(w->a, token_new(w), "ttl_ms=1000"), 201);
    expect_status(session_open(w->a, token_new(w), "ttl_ms=3600000"), 201);
}

static void test_look(struct world *w)
{
    struct session s = session_new(w->a, "ttl_ms=20000&name=looked-at");
    struct reply *r = session_look(w->b, s.id);
    struct reply *held;
    const char *token;

    expect_status(r, 200);
    expect_str(r, "session_id", s.id);
    expect_str(r, "name", "looked-at");
    expect_int(r, "ttl_ms", 20000);
    expect_between(r, "age_ms", 0, allowed_ms(5000));
    expect_between(r, "remaining_ms", 10000, 20000);
    assert_int_equal(leases_len(r), 0);
    held = session_put(w->a, &s, "look/1", token_new(w), "note=n&owner=me");
    expect_status(held, 201);
    expect_str(held, "session_id", s.id);
    expect_str(held, "owner", "me");
    expect_bool(held, "watchdog", true);
    token = session_hold(w->b, &s, "look/2", "ttl_ms=60000");
    r = session_look(w->b, s.id);
    assert_int_equal(leases_len(r), 2);
    json_t *one = lease_of(r, "look/1"), *two = lease_of(r, "look/2");
    assert_string_equal(json_string_value(json_object_get(one, "lease_id")),
                        reply_str(held, "lease_id"));
    assert_int_equal(json_integer_value(json_object_get(one, "fencing_token")),
                     reply_int(held, "fencing_token"));
    assert_string_equal(json_string_value(json_object_get(one, "owner")), "me");
    assert_true(json_is_true(json_object_get(one, "watchdog")));
    assert_true(json_is_false(json_object_get(two, "watchdog")));
    assert_int_equal(json_integer_value(json_object_get(two, "ttl_ms")), 60000);
    expect_status(lock_release(w->a, "look/2", token), 200);
    assert_int_equal(leases_len(session_look(w->a, s.id)), 1);
    /* Looking is no sign of life. */
    json_int_t left = reply_int(session_look(w->a, s.id), "remaining_ms");
    nap_ms(20);
    expect_between(session_look(w->a, s.id), "remaining_ms", 1, left - 15);
}

/* Whoever is in the way is named. */
static void test_others_see_who_holds(struct world *w)
{
    struct session s = session_new(w->a, "name=host/17");
    struct reply *r;

    session_hold(w->a, &s, "seen", "note=hello");
    session_hold(w->a, &s, "seen-owner", "owner=worker-3");
    r = lock_put(w->b, "seen", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.session_id", s.id);
    expect_str(r, "holder.session_name", "host/17");
    expect_str(r, "holder.note", "hello");
    r = lock_put(w->b, "seen-owner", token_new(w), NULL);
    expect_problem(r, 423, "locked");
    expect_str(r, "holder.session_id", s.id);
    expect_str(r, "holder.owner", "worker-3");
    expect_absent(r, "holder.redisson_holder");
    r = lock_look(w->b, "seen-owner");
    expect_str(r, "holders.0.session_id", s.id);
    expect_int(r, "holders.0.hold_count", 1);
    r = http(w->b, "GET", "/v1/locks?prefix=seen&limit=10", NULL);
    assert_int_equal(json_array_size(reply_get(r, "locks")), 2);
}

static void test_cursors_of_nobody(struct world *w)
{
    static const char *const cursors[] = {"x",
                                          "0",
                                          "0.-1",
                                          "0.18446744073709551615",
                                          "18446744073709551616.0",
                                          "0.0.0..x",
                                          "0.0.0..4294967296",
                                          "0.0.0..1.1"};

    for (size_t i = 0; i < COUNT_OF(cursors); i++)
        expect_problem(http(w->a, "GET", text(w, "/v1/sessions?cursor=%s", cursors[i]), NULL),
                       400, "malformed-request");
}

/* The watchdog gives sessions other scores while a client reads page after page. */
static void test_pages_while_scores_change(struct world *w)
{
    enum { SESSIONS = 40, ROUNDS_MAX = 400 };
    static const char other_scores[] =
        "for _, index in ipairs(redis.call('keys', '*rlockd:sessions*')) do "
        "  if redis.call('type', index).ok == 'zset' then "
        "    local all = redis.call('zrange', index, 0, -1, 'withscores') "
        "    for i = 1, #all, 2 do "
        "      redis.call('zadd', index, all[#all] * 2 - all[i + 1], all[i]) "
        "    end "
        "  end "
        "end";
    json_t *seen = json_object();
    const char *cursor = NULL;
    int rounds = 0;

    for (int i = 0; i < SESSIONS; i++) {
        session_new(w->a, text(w, "ttl_ms=600000&name=scored-%d", i));
        nap_ms(2);
    }
    do {
        struct reply *r = http(w->b, "GET",
                               text(w, "/v1/sessions?limit=1%s%s", cursor ? "&cursor=" : "",
                                    cursor ? url_encode(w, cursor) : ""),
                               NULL);
        const char *name = json_string_value(
            json_object_get(json_array_get(reply_get(r, "sessions"), 0), "name"));

        expect_status(r, 200);
        if (name != NULL && strncmp(name, "scored-", 7) == 0)
            json_object_set_new(seen, name, json_true());
        cursor = reply_str(r, "next_cursor");
        redis_do(w->redis, "EVAL %s 0", other_scores);
    } while (cursor != NULL && ++rounds < ROUNDS_MAX);
    assert_int_equal(json_object_size(seen), SESSIONS);
    json_decref(seen);
}

/* As of locks: see test_listing.c. */
static void test_a_restart_between_two_pages(struct world *w)
{
    enum { SESSIONS = 3000, PAGES_MAX = 1000 };
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    json_t *seen = json_object(), *entry;
    const char *cursor = "";
    int pages = 0;
    size_t i;

    for (int session = 0; session < SESSIONS; session++)
        session_new(fe, "ttl_ms=3600000");
    do {
        struct reply *r = http(
            fe, "GET", text(w, "/v1/sessions?limit=60&cursor=%s", url_encode(w, cursor)), NULL);
        expect_status(r, 200);
        json_array_foreach(reply_get(r, "sessions"), i, entry) {
            json_object_set_new(seen, json_string_value(json_object_get(entry, "session_id")),
                                json_true());
        }
        cursor = reply_str(r, "next_cursor");
        if (pages++ == 0) {
            redis_kill(redis);
            redis_return(redis);
            wait_until(front_ready(fe), 10000);
        }
    } while (cursor != NULL && pages < PAGES_MAX);
    assert_null(cursor);
    assert_int_equal(json_object_size(seen), SESSIONS);
    json_decref(seen);
}

static void test_list_in_pages(struct world *w)
{
    enum { SESSIONS = 45, ROUNDS_MAX = 200 };
    json_t *seen = json_object();
    struct session ended = session_new(w->a, "name=listed-no-more");
    const char *cursor = NULL, *id;
    json_t *count;
    int rounds = 0, found = 0;

    expect_status(session_end(w->a, &ended), 200);
    for (int i = 0; i < SESSIONS; i++)
        session_new(w->a, text(w, "name=listed-%d", i));
    do {
        struct reply *r = http(w->b, "GET",
                               text(w, "/v1/sessions?limit=10%s%s", cursor ? "&cursor=" : "",
                                    cursor ? url_encode(w, cursor) : ""),
                               NULL);
        size_t i;
        json_t *one;

        expect_status(r, 200);
        assert_true(json_array_size(reply_get(r, "sessions")) <= 10);
        json_array_foreach(reply_get(r, "sessions"), i, one) {
            const char *name = json_string_value(json_object_get(one, "name"));

            assert_true(json_integer_value(json_object_get(one, "remaining_ms")) > 0);
            assert_string_not_equal(name, "listed-no-more");
            id = json_string_value(json_object_get(one, "session_id"));
            if (strncmp(name, "listed-", 7) == 0)
                json_object_set_new(seen, id, json_integer(1));
        }
        cursor = reply_str(r, "next_cursor");
        expect_true(r, cursor != NULL || json_is_null(reply_get(r, "next_cursor")));
    } while (cursor != NULL && ++rounds < ROUNDS_MAX);
    json_object_foreach(seen, id, count) {
        found += (int)json_integer_value(count);
    }
    json_decref(seen);
    assert_int_equal(found, SESSIONS);
    assert_true(rounds >= SESSIONS / 10);
    expect_detail(http(w->a, "GET", "/v1/sessions?limit=0", NULL), "limit");
    expect_detail(http(w->a, "GET", "/v1/sessions?limit=1001", NULL), "limit");
    expect_detail(http(w->a, "GET", "/v1/sessions?cursor=nonsense", NULL), "cursor");
    expect_problem(http(w->a, "GET", "/v1/sessions?cursor=0.18446744073709551615", NULL), 400,
                   "malformed-request");
    expect_problem(http(w->a, "GET", "/v1/sessions?cursor=18446744073709551616.1", NULL), 400,
                   "malformed-request");
    expect_detail(http(w->a, "GET", "/v1/sessions?prefix=x", NULL), "prefix");
}

static struct reply *look_page(struct front *fe, const char *id, const char *query)
{
    return http(fe, "GET", text(fe->world, "/v1/sessions/%s?%s", id, query), NULL);
}

/* Each lease that stays is in exactly one page, whatever other leases come and go, and leases
 * with one token on many locks are many leases. */
static void test_leases_in_pages(struct world *w)
{
    enum { LEASES = 30, PAGE = 7, PAGES_MAX = 40 };
    struct session s = session_new(w->a, NULL);
    const char *token = token_new(w), *cursor = "", *key;
    json_t *seen = json_object(), *lease, *count;
    int pages = 0;
    size_t i;

    for (int n = 0; n < LEASES; n++)
        expect_status(session_put(w->a, &s, text(w, "page-%d", n),
                                  n % 2 == 0 ? token : token_new(w), NULL),
                      201);
    do {
        struct reply *r = look_page(w->b, s.id, text(w, "limit=%d&cursor=%s", PAGE, cursor));
        expect_status(r, 200);
        assert_true(leases_len(r) <= PAGE);
        json_array_foreach(reply_get(r, "leases"), i, lease) {
            key = json_string_value(json_object_get(lease, "lock"));
            assert_string_equal(json_string_value(json_object_get(lease, "state")), "held");
            json_object_set_new(
                seen, key, json_integer(json_integer_value(json_object_get(seen, key)) + 1));
        }
        cursor = reply_str(r, "next_cursor");
        expect_true(r, cursor != NULL || json_is_null(reply_get(r, "next_cursor")));
        session_hold(w->a, &s, text(w, "comes-%d", pages), NULL);
    } while (cursor != NULL && ++pages < PAGES_MAX);
    for (int n = 0; n < LEASES; n++) {
        count = json_object_get(seen, text(w, "page-%d", n));
        assert_int_equal(json_integer_value(count), 1);
    }
    json_decref(seen);
    expect_alive(keep_alive(w->a, &s, NULL), (size_t)(LEASES + pages + 1)); /* all of them */
    expect_detail(look_page(w->a, s.id, "limit=1001"), "limit");
    expect_detail(look_page(w->a, s.id, "cursor=nonsense"), "cursor");
    expect_detail(look_page(w->a, s.id, text(w, "cursor=%s", s.id)), "cursor");
    expect_detail(look_page(w->a, s.id, "prefix=x"), "prefix");
}

static void test_only_its_token_may(struct world *w)
{
    struct session s = session_new(w->a, NULL), other = session_new(w->a, NULL);
    const char *path = text(w, "/v1/sessions/%s", s.id);
    const char *alive = text(w, "/v1/sessions/%s/keep-alive", s.id);
    const char *const asked[][2] = {{"DELETE", path}, {"POST", alive}};
    struct reply *r;

    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        r = ask(w->a, asked[i][0], asked[i][1], NULL);
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, "Session-Token");
        r = ask(w->a, asked[i][0], asked[i][1], "nonsense");
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, "Session-Token");
        expect_problem(ask(w->b, asked[i][0], asked[i][1], other.token), 403, "forbidden");
        /* The public id is no token. */
        r = ask(w->b, asked[i][0], asked[i][1], s.id);
        expect_problem(r, 403, "forbidden");
        expect_detail(r, "its session_id");
        r = ask(w->a, asked[i][0], text(w, "%s?no=1", asked[i][1]), s.token);
        expect_problem(r, 400, "malformed-request");
        expect_detail(r, "no");
    }
    expect_alive(keep_alive(w->b, &s, NULL), 0);
    r = ask(w->a, "PUT", "/v1/sessions", NULL);
    expect_problem(r, 405, "method-not-allowed");
    r = ask(w->a, "GET", alive, s.token);
    expect_problem(r, 405, "method-not-allowed");
    r = session_look(w->a, "nonsense");
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "session_id");
}

static void test_nobody_knows_it(struct world *w)
{
    struct session s = session_new(w->a, NULL), never = {.token = token_new(w)};
    struct reply *r;

    /* What a token's id would be is not said before it is opened: open it and lose the data. */
    r = session_open(w->a, never.token, NULL);
    never.id = reply_str(r, "session_id");
    never.header = text(w, "Session-Token: %s", never.token);
    redis_ok(w->redis, "DEL rlockd:session:{%s}", never.id);
    redis_ok(w->redis, "DEL rlockd:session-leases:{%s}", never.id);
    redis_ok(w->redis, "DEL rlockd:session-due:{%s}", never.id);
    expect_problem(session_look(w->a, never.id), 404, "not-found");
    r = keep_alive(w->b, &never, NULL);
    expect_problem(r, 410, "session-ended");
    expect_str(r, "reason", "unknown");
    r = session_put(w->a, &never, "nobody", token_new(w), NULL);
    expect_problem(r, 410, "session-ended");
    assert_false(redis_has(w->redis, "nobody"));
    r = session_end(w->a, &never);
    expect_problem(r, 410, "session-ended");
    expect_problem(session_look(w->a, s.token), 404, "not-found");
}

static void test_spent_tokens(struct world *w)
{
    struct session s = session_new(w->a, "name=spent");
    struct reply *r;

    session_hold(w->a, &s, "spent/1", NULL);
    session_hold(w->b, &s, "spent/2", "ttl_ms=60000");
    for (int i = 0; i < 3; i++) {
        r = session_end(i == 1 ? w->b : w->a, &s);
        expect_status(r, 200);
        expect_int(r, "released", 2);
    }
    assert_false(redis_has(w->redis, "spent/1") || redis_has(w->redis, "spent/2"));
    struct reply *late[] = {keep_alive(w->b, &s, NULL), keep_alive(w->a, &s, "wait_ms=10000"),
                            session_open(w->b, s.token, "name=spent"),
                            session_open(w->a, s.token, NULL),
                            session_put(w->b, &s, "spent/3", token_new(w), NULL)};
    for (size_t i = 0; i < COUNT_OF(late); i++) {
        expect_problem(late[i], 410, "session-ended");
        expect_str(late[i], "reason", "released");
    }
    expect_problem(session_look(w->a, s.id), 404, "not-found");
    assert_false(redis_has(w->redis, "spent/3"));
}

/* A lease whose token the server makes belongs to the session like any other. */
static void test_leases_with_tokens_of_the_servers(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct reply *r = HTTP(w->a, .method = "POST", .path = "/v1/locks/made-for-session",
                           .headers = {s.header});
    const char *token = reply_str(r, "lease_token");

    expect_status(r, 201);
    assert_non_null(token);
    token_watch(w, token);
    expect_str(r, "session_id", s.id);
    expect_bool(r, "watchdog", true);
    stays_true(redis_has(w->redis, "made-for-session"), 2 * watchdog_ms());
    expect_alive(keep_alive(w->b, &s, NULL), 1);
    expect_status(session_put(w->b, &s, "made-for-session", token, NULL), 200);
    expect_status(lock_release(w->b, "made-for-session", token), 200);
    expect_alive(keep_alive(w->b, &s, NULL), 0);
}

/* One token, one lease: it is no other session's. */
static void test_a_lease_token_of_another_session(struct world *w)
{
    struct session s = session_new(w->a, NULL), other = session_new(w->a, NULL);
    const char *token = session_hold(w->a, &s, "whose", NULL);
    struct reply *r;

    expect_problem(session_put(w->b, &other, "whose", token, NULL), 422, "token-reused");
    expect_alive(keep_alive(w->a, &other, NULL), 0);
    /* The note of that request may last longer than its answer takes. */
    const char *lease_id = reply_str(session_put(w->b, &s, "whose", token, NULL), "lease_id");
    redis_do(w->redis, "HSET rlockd:session-leases:{%s} %s %s", other.id,
             text(w, "%s whose", lease_id), text(w, "%lld000 e2e.1", (long long)time(NULL)));
    expect_alive(keep_alive(w->a, &other, NULL), 0);
    expect_alive(keep_alive(w->a, &s, NULL), 1);
    r = session_end(w->a, &other);
    expect_status(r, 200);
    expect_int(r, "released", 0);
    expect_alive(keep_alive(w->a, &s, NULL), 1);
    expect_status(session_put(w->b, &s, "whose", token, NULL), 200);
}

/* Nor is the lease without a session whose token the server made. */
static void test_a_lease_token_of_no_session(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    struct reply *r = HTTP(w->a, .method = "POST", .path = "/v1/locks/sessionless");
    const char *token = reply_str(r, "lease_token");

    expect_status(r, 201);
    token_watch(w, token);
    expect_problem(session_put(w->b, &s, "sessionless", token, NULL), 422, "token-reused");
    redis_do(w->redis, "HSET rlockd:session-leases:{%s} %s %s", s.id,
             text(w, "%s sessionless", reply_str(r, "lease_id")),
             text(w, "%lld000 e2e.1", (long long)time(NULL)));
    r = session_end(w->a, &s);
    expect_status(r, 200);
    expect_int(r, "released", 0);
    expect_status(lock_renew(w->b, "sessionless", token, NULL), 200);
}

int main(void)
{
    const char *const flags[] = {WATCHDOG_FLAGS, NULL};
    static const struct e2e_test tests[] = {
        E2E_TEST(test_open_with_a_token_of_the_servers),
        E2E_TEST(test_open_with_a_token_of_ones_own),
        E2E_TEST(test_open_refuses_nonsense),
        E2E_TEST(test_look),
        E2E_TEST(test_others_see_who_holds),
        E2E_TEST(test_cursors_of_nobody),
        E2E_TEST(test_list_in_pages),
        E2E_TEST(test_a_restart_between_two_pages),
        E2E_TEST(test_pages_while_scores_change),
        E2E_TEST(test_leases_in_pages),
        E2E_TEST(test_only_its_token_may),
        E2E_TEST(test_nobody_knows_it),
        E2E_TEST(test_spent_tokens),
        E2E_TEST(test_leases_with_tokens_of_the_servers),
        E2E_TEST(test_a_lease_token_of_another_session),
        E2E_TEST(test_a_lease_token_of_no_session),
    };
    struct e2e_plan plan = {
        .name = "sessions", E2E_TESTS(tests), .front_ends = 2, .flags = flags};

    return e2e_run(&plan);
}
