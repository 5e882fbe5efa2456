/* What the log tells an operator: a line for each request, and lines for sessions that expired
 * and leases that were lost. */
#include "multi_locks.h"

#include <signal.h>

enum { SOON_MS = 5000 };

static bool has_text(const json_t *entry, const char *member, const char *value)
{
    const char *has = json_string_value(json_object_get(entry, member));

    return has != NULL && strcmp(has, value) == 0;
}

/* The last line of this event with this member, and the number of such lines; NULL when there
 * is none. */
static json_t *event_logged(struct front *fe, const char *msg, const char *member,
                            const char *value, int *count)
{
    char *log = strdup(front_log(fe)), *save = NULL;
    json_t *found = NULL;

    *count = 0;
    for (char *line = strtok_r(log, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_t *entry = json_loads(line, 0, NULL);

        if (!has_text(entry, "msg", msg) || !has_text(entry, member, value)) {
            json_decref(entry);
            continue;
        }
        ++*count;
        json_decref(found);
        found = entry;
    }
    free(log);
    return found;
}

static json_t *request_logged(struct front *fe, const char *member, const char *value)
{
    int count;

    return event_logged(fe, "request", member, value, &count);
}

static void undo_json(void *thing)
{
    json_decref(thing);
}

static void test_one_log_line_a_request(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = lock_put(w->a, "logged\"\xe2\x82\xac", token, NULL);
    json_t *line = NULL;

    wait_until((line = request_logged(w->a, "lock", "logged\"\xe2\x82\xac")) != NULL, 2000);
    world_defer(w, undo_json, line);
    assert_string_equal(json_string_value(json_object_get(line, "level")), "info");
    assert_string_equal(json_string_value(json_object_get(line, "method")), "PUT");
    assert_string_equal(json_string_value(json_object_get(line, "route")), "/v1/locks/{name}");
    assert_int_equal(json_integer_value(json_object_get(line, "status")), 201);
    assert_true(json_is_number(json_object_get(line, "duration_ms")));
    assert_string_equal(json_string_value(json_object_get(line, "lease_id")),
                        reply_str(r, "lease_id"));
    assert_non_null(strstr(json_string_value(json_object_get(line, "remote")), "127.0.0.1"));
    assert_true(json_is_string(json_object_get(line, "time")));
}

/* Whether the lease's last line is one of `method` and names these locks. */
static bool locks_logged(struct front *fe, const char *lease_id, const char *method,
                         const char *names)
{
    json_t *line = request_logged(fe, "lease_id", lease_id);
    const char *last = json_string_value(json_object_get(line, "method"));
    json_t *expected = json_loads(names, 0, NULL);
    bool ok = last != NULL && strcmp(last, method) == 0 &&
              json_equal(json_object_get(line, "locks"), expected);

    json_decref(expected);
    json_decref(line);
    return ok;
}

/* The locks of a set are logged, also where a request has only their token. */
static void test_several_locks_are_logged(struct world *w)
{
    static const char *const methods[] = {"GET", "PATCH", "DELETE"};
    const char *token = token_new(w);
    struct reply *r = multi_put(w->a, NULL, token, "log/b log/a", NULL);
    const char *id = reply_str(r, "lease_id");

    skip_on_cluster(w); /* the names are in several slots */
    expect_status(r, 201);
    wait_until(locks_logged(w->a, id, "PUT", "[\"log/a\", \"log/b\"]"), 2000);
    for (int i = 0; i < 3; i++) {
        expect_status(multi_ask(w->a, methods[i], token, NULL), 200);
        wait_until(locks_logged(w->a, id, methods[i], "[\"log/a\", \"log/b\"]"), 2000);
    }
    expect_problem(multi_put(w->a, NULL, token, "log/b log/a", NULL), 410, "lease-ended");
    wait_until(locks_logged(w->a, id, "PUT", "[\"log/a\", \"log/b\"]"), 2000);
}

/* The server-made token is a secret, too; the harness knows only of the client's. */
static void test_made_tokens_are_not_logged(struct world *w)
{
    struct reply *r = http(w->a, "POST", "/v1/locks/made", NULL);
    json_t *line = NULL;

    expect_status(r, 201);
    wait_until((line = request_logged(w->a, "lock", "made")) != NULL, 2000);
    json_decref(line);
    assert_null(strcasestr(front_log(w->a), reply_str(r, "lease_token")));
}

static void test_log_level(struct world *w)
{
    struct front *quiet = front_launch(w, "--redis", w->redis->url, "--log-level", "info",
                                       NULL);
    const char *const args[] = {"--listen",    "127.0.0.1:0", "--redis", w->redis->url,
                                "--log-level", "error",       NULL};
    struct child *silent = rlockd_start(w, args, NULL);

    wait_until(front_ready(quiet), 5000);
    assert_int_equal(child_wait(silent, 300), -1);
    assert_string_equal(child_stderr(silent), "");
    child_signal(silent, SIGTERM);
    assert_int_equal(child_wait(silent, 8000), 0);
}

/* --- what lines of requests have ---------------------------------------------------------- */

/* The last line of a request with this member, which has come or comes soon. */
static json_t *await_line(struct world *w, struct front *fe, const char *member,
                          const char *value)
{
    json_t *line = NULL;

    wait_until((line = request_logged(fe, member, value)) != NULL, SOON_MS);
    world_defer(w, undo_json, line);
    return line;
}

static const char *str(const json_t *line, const char *member)
{
    const char *value = json_string_value(json_object_get(line, member));

    return value != NULL ? value : "";
}

static json_int_t integer(const json_t *line, const char *member)
{
    const json_t *value = json_object_get(line, member);

    return json_is_integer(value) ? json_integer_value(value) : -1;
}

/* A request with an X-Request-Id, to find its line by. */
static json_t *line_of(struct world *w, const char *method, const char *path, const char *token,
                       const char *header)
{
    static int number;
    const char *id = text(w, "line-%d", ++number);

    HTTP(w->a, .method = method, .path = path, .token = token,
         .headers = {text(w, "X-Request-Id: %s", id), header});
    return await_line(w, w->a, "request_id", id);
}

static void test_grants_and_refusals(struct world *w)
{
    const char *token = token_new(w), *path = lock_path(w, "why", "?ttl_ms=60000");
    json_t *line = line_of(w, "PUT", path, token, NULL);
    json_int_t fence = integer(line, "fencing_token");

    assert_int_equal(integer(line, "status"), 201);
    assert_true(fence > 0);
    line = line_of(w, "PUT", path, token, NULL);
    assert_int_equal(integer(line, "status"), 200);
    assert_int_equal(integer(line, "fencing_token"), fence);
    assert_null(json_object_get(line, "waited_ms"));
    line = line_of(w, "PUT", path, token_new(w), NULL);
    assert_string_equal(str(line, "problem"), "locked");
    assert_null(json_object_get(line, "wait_ms"));
    assert_null(json_object_get(line, "waited_ms"));
    line = line_of(w, "PUT", lock_path(w, "why", "?wait_ms=300"), token_new(w), NULL);
    assert_string_equal(str(line, "problem"), "locked");
    assert_int_equal(integer(line, "wait_ms"), 300);
    assert_true(integer(line, "waited_ms") >= 0);
    expect_status(lock_release(w->a, "why", token), 200);
    line = line_of(w, "PATCH", path, token, NULL);
    assert_string_equal(str(line, "problem"), "lease-ended");
    assert_string_equal(str(line, "reason"), "released");
}

static void test_sets_have_each_fencing_token(struct world *w)
{
    skip_on_cluster(w); /* the names are in several slots */
    struct reply *r = multi_put(w->a, NULL, token_new(w), "each/a each/b", NULL);
    json_t *line = await_line(w, w->a, "lease_id", reply_str(r, "lease_id"));
    const json_t *tokens = json_object_get(line, "fencing_tokens");

    assert_int_equal(json_array_size(tokens), 2);
    assert_int_equal(json_integer_value(json_array_get(tokens, 1)), multi_fence(r, "each/b"));
}

static void test_sessions_are_named(struct world *w)
{
    struct session s = session_new(w->a, "name=worker%2F7");
    const char *path = lock_path(w, "named", ""), *token = token_new(w);
    const char *keep = text(w, "/v1/sessions/%s/keep-alive", s.id);

    assert_string_equal(str(await_line(w, w->a, "session_id", s.id), "session_name"),
                        "worker/7");
    assert_string_equal(str(line_of(w, "PUT", path, token, s.header), "session_id"), s.id);
    assert_string_equal(str(line_of(w, "PATCH", path, token, NULL), "session_id"), s.id);
    json_t *line = line_of(w, "POST", keep, NULL, s.header);
    assert_string_equal(str(line, "session_id"), s.id);
    assert_string_equal(str(line, "session_name"), "worker/7");
    assert_null(json_object_get(line, "wait_ms"));
    /* A token in the place of the id is not logged. */
    line = line_of(w, "GET", text(w, "/v1/sessions/%s", s.token), NULL, NULL);
    assert_int_equal(integer(line, "status"), 404);
    assert_null(json_object_get(line, "session_id"));
}

static void test_objects_are_named_by_kind(struct world *w)
{
    static const char *const rows[][2] = {{"/v1/semaphores/named", "semaphore"},
                                          {"/v1/permit-semaphores/named", "permit_semaphore"},
                                          {"/v1/latches/named", "latch"},
                                          {"/v1/locks/named", "lock"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        json_t *line = line_of(w, "GET", rows[i][0], NULL, NULL);
        assert_string_equal(str(line, rows[i][1]), "named");
        assert_true(i == 3 || json_object_get(line, "lock") == NULL);
    }
}

static void test_health_checks_are_for_debugging(struct world *w)
{
    static const char *const paths[] = {"/livez", "/readyz", "/metrics"};
    struct front *debug = front_start(w, "--redis", w->redis->url, "--log-level", "debug",
                                      NULL);
    json_t *line = NULL;

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        expect_status(http(w->a, "GET", paths[i], NULL), 200);
        expect_status(http(debug, "GET", paths[i], NULL), 200);
        line = await_line(w, debug, "route", paths[i]);
        assert_string_equal(str(line, "level"), "debug");
    }
    line_of(w, "GET", lock_path(w, "after", ""), NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        assert_null(request_logged(w->a, "route", paths[i]));
}

/* --- sessions that expire, leases that are lost ------------------------------------------- */

/* The only line of this event with this member, of all the front ends together. */
static json_t *only_event(struct world *w, struct front *other, const char *msg,
                          const char *member, const char *value)
{
    json_t *line = NULL, *lines[2] = {NULL, NULL};
    int count = 0, counts[2] = {0, 0};

    wait_until(((lines[0] = event_logged(w->a, msg, member, value, &counts[0])) != NULL) |
                   ((lines[1] = event_logged(other, msg, member, value, &counts[1])) != NULL),
               20000);
    for (int i = 0; i < 2; i++) {
        count += counts[i];
        line = lines[i] != NULL ? lines[i] : line;
        if (lines[i] != NULL)
            world_defer(w, undo_json, lines[i]);
    }
    assert_int_equal(count, 1);
    assert_string_equal(str(line, "level"), "warn");
    return line;
}

static void test_a_session_that_expires(struct world *w)
{
    struct front *other = front_start(w, "--redis", w->redis->url, NULL);
    struct session s = session_new(w->a, text(w, "%s&name=worker%%2F7", ttl_of(w, 2000)));
    struct reply *lock = session_put(w->a, &s, "quiet", token_new(w), NULL);
    const char *keep = text(w, "/v1/sessions/%s/keep-alive", s.id), *permit = token_new(w);

    expect_status(HTTP(w->a, .method = "PUT", .path = "/v1/permit-semaphores/quiet-too",
                       .body = "{\"permits\": 1}"),
                  201);
    expect_status(HTTP(w->a, .method = "PUT", .path = "/v1/permit-semaphores/quiet-too/permit",
                       .token = permit, .headers = {s.header}),
                  201);
    json_t *line = only_event(w, other, "session expired", "session_id", s.id);
    assert_string_equal(str(line, "session_name"), "worker/7");
    assert_int_equal(integer(line, "leases"), 2);
    line = only_event(w, other, "lease lost", "lock", "quiet");
    assert_string_equal(str(line, "session_id"), s.id);
    assert_string_equal(str(line, "lease_id"), reply_str(lock, "lease_id"));
    assert_string_equal(str(line, "reason"), "session-ended");
    line = only_event(w, other, "lease lost", "permit_semaphore", "quiet-too");
    assert_string_equal(str(line, "session_id"), s.id);
    line = line_of(w, "POST", keep, NULL, s.header);
    assert_string_equal(str(line, "session_id"), s.id);
    assert_string_equal(str(line, "problem"), "session-ended");
    assert_string_equal(str(line, "reason"), "expired");
}

static void test_a_session_whose_name_is_no_text(struct world *w)
{
    struct front *other = front_start(w, "--redis", w->redis->url, NULL);
    struct session s = session_new(w->a, text(w, "%s&name=worker", ttl_of(w, 2000)));

    redis_ok(w->redis, "HSET rlockd:session:{%s} name %b", s.id, "\xff", (size_t)1);
    json_t *line = only_event(w, other, "session expired", "session_id", s.id);
    assert_null(json_object_get(line, "session_name"));
    assert_int_equal(integer(line, "leases"), 0);
}

static void test_a_lease_that_is_forced_out(struct world *w)
{
    struct front *other = front_start(w, "--redis", w->redis->url, NULL);
    struct session s = session_new(w->a, NULL);
    const char *id = reply_str(session_put(w->a, &s, "taken", token_new(w), NULL), "lease_id");

    expect_status(force_unlock(w->a, "taken"), 200);
    expect_status(keep_alive(w->a, &s, NULL), 200);
    expect_status(keep_alive(other, &s, NULL), 200);
    json_t *line = only_event(w, other, "lease lost", "lease_id", id);
    assert_string_equal(str(line, "lock"), "taken");
    assert_string_equal(str(line, "session_id"), s.id);
    assert_string_equal(str(line, "reason"), "forced");
}

/* The client wanted the end, so nothing was lost. */
static void test_a_session_that_its_client_ends(struct world *w)
{
    struct session s = session_new(w->a, NULL);
    int count;

    session_hold(w->a, &s, "given/back", NULL);
    expect_status(session_end(w->a, &s), 200);
    line_of(w, "GET", lock_path(w, "given/back", ""), NULL, NULL);
    assert_null(event_logged(w->a, "lease lost", "session_id", s.id, &count));
    assert_null(event_logged(w->a, "session expired", "session_id", s.id, &count));
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_one_log_line_a_request),
        E2E_TEST(test_several_locks_are_logged),
        E2E_TEST(test_made_tokens_are_not_logged),
        E2E_TEST(test_log_level),
        E2E_TEST(test_grants_and_refusals),
        E2E_TEST(test_sets_have_each_fencing_token),
        E2E_TEST(test_sessions_are_named),
        E2E_TEST(test_objects_are_named_by_kind),
        E2E_TEST(test_health_checks_are_for_debugging),
        E2E_TEST(test_a_session_that_expires),
        E2E_TEST(test_a_session_whose_name_is_no_text),
        E2E_TEST(test_a_lease_that_is_forced_out),
        E2E_TEST(test_a_session_that_its_client_ends),
    };
    struct e2e_plan plan = {.name = "log", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
