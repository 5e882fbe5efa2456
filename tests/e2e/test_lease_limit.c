/* max-leases of an API token: what counts, and what is known of its end. */
#include "harness.h"

#include <signal.h>

#define TOKEN "few-secret-aaaaaaaaaa"
#define OTHER_TOKEN "other-secret-dddddddd"
#define TWO "few {" TOKEN "} lock=* read=* max-leases=2\n"
#define MANY "many {" OTHER_TOKEN "} lock=* read=* operate=*\n"

enum { SOON_MS = 5000 };

static struct front *guarded(struct world *w)
{
    return front_start(w, "--redis", w->redis->url, "--workers", "2", "--api-tokens",
                       tokens_write(w, "tokens", TWO MANY), NULL);
}

static struct reply *with(struct front *fe, const char *method, const char *path,
                          const char *lease_token)
{
    return HTTP(fe, .method = method, .path = path, .token = lease_token,
                .headers = {bearer(fe->world, TOKEN)});
}

static const char *hold(struct front *fe, const char *path)
{
    const char *token = token_new(fe->world);

    expect_status(with(fe, "PUT", path, token), 201);
    return token;
}

/* The caller may have so many further leases now. */
static void expect_room_at(struct front *fe, int room, const char *file, int line)
{
    enum { TRIES = 4 };
    struct world *w = fe->world;
    const char *tokens[TRIES];
    int found = 0;
    struct reply *r;

    for (;; found++) {
        tokens[found] = token_new(w);
        r = with(fe, "PUT", text(w, "/v1/locks/room%d?ttl_ms=60000", found), tokens[found]);
        if (r->status != 201 || found == TRIES - 1)
            break;
    }
    expect_problem_at(r, 429, "limit-reached", file, line);
    expect_detail_at(r, "max-leases", file, line);
    expect_between_at(r, "limit", 2, 2, file, line);
    assert_non_null(reply_header(w, r, "Retry-After"));
    for (int i = 0; i < found; i++)
        expect_status_at(with(fe, "DELETE", text(w, "/v1/locks/room%d", i), tokens[i]), 200,
                         file, line);
    if (found != room)
        FAIL("%s:%d: room for %d leases, not %d", file, line, found, room);
}

#define expect_room(fe, room) expect_room_at(fe, room, __FILE__, __LINE__)

/* However a lease ends here, it counts no more at once. */
static void test_leases_end_here(struct world *w)
{
    struct front *fe = guarded(w);
    const char *token;
    struct reply *r;

    expect_room(fe, 2);
    token = hold(fe, "/v1/locks/a?ttl_ms=60000");
    expect_room(fe, 1);
    expect_status(with(fe, "PUT", "/v1/locks/a?ttl_ms=60000", token), 200);
    expect_room(fe, 1);
    hold(fe, "/v1/locks/b?ttl_ms=60000");
    expect_status(with(fe, "PUT", "/v1/locks/a?ttl_ms=60000", token), 200);
    expect_status(with(fe, "PATCH", "/v1/locks/a?ttl_ms=60000", token), 200);
    expect_room(fe, 0);
    expect_status(with(fe, "DELETE", "/v1/locks/a", token), 200);
    expect_room(fe, 1);
    expect_problem(with(fe, "PUT", "/v1/locks/a", token), 410, "lease-ended");
    expect_room(fe, 1);
    /* A lock that is held is no lease. */
    expect_problem(with(fe, "PUT", "/v1/locks/b", token_new(w)), 423, "locked");
    expect_room(fe, 1);
    /* Forced: known here when its own client is told. */
    token = hold(fe, "/v1/locks/forced?ttl_ms=60000");
    r = HTTP(fe, .method = "POST", .path = "/v1/locks/forced/force-unlock",
             .headers = {bearer(w, OTHER_TOKEN)});
    expect_status(r, 200);
    expect_room(fe, 0);
    expect_problem(with(fe, "PATCH", "/v1/locks/forced", token), 410, "lease-ended");
    expect_room(fe, 1);
    /* No other caller is limited. */
    for (int i = 0; i < 3; i++)
        expect_status(HTTP(fe, .method = "PUT", .path = text(w, "/v1/locks/any%d", i),
                           .token = token_new(w), .headers = {bearer(w, OTHER_TOKEN)}),
                      201);
}

/* A lease that ends elsewhere counts until its time is over, as far as it is known here. */
static void test_leases_end_elsewhere(struct world *w)
{
    struct front *fe = guarded(w);
    const char *token = hold(fe, "/v1/locks/elsewhere?ttl_ms=1500");
    const char *renewed = hold(fe, "/v1/locks/renewed?ttl_ms=300");

    expect_status(with(fe, "PATCH", "/v1/locks/renewed?ttl_ms=60000", renewed), 200);
    expect_status(lock_release(w->a, "elsewhere", token), 200);
    expect_problem(with(fe, "PUT", "/v1/locks/x", token_new(w)), 429, "limit-reached");
    wait_until(with(fe, "PUT", "/v1/locks/x", token_new(w))->status == 201, SOON_MS);
    expect_room(fe, 0);
}

static void test_waiters_count(struct world *w)
{
    struct front *fe = guarded(w);
    const char *token = token_new(w);
    struct call *waiting;

    expect_status(lock_put(w->a, "busy", token, "ttl_ms=60000"), 201);
    waiting = CALL(fe, .method = "PUT", .path = "/v1/locks/busy?wait_ms=30000",
                   .token = token_new(w), .headers = {bearer(w, TOKEN)});
    wait_until(front_metric(fe, "rlockd_waiters", NULL) == 1, SOON_MS);
    expect_room(fe, 1);
    call_hang_up(waiting);
    wait_until(front_metric(fe, "rlockd_waiters", NULL) == 0, SOON_MS);
    expect_room(fe, 2);
    /* Granted, and withdrawn when its client hangs up. */
    waiting = CALL(fe, .method = "PUT", .path = "/v1/locks/busy?wait_ms=30000",
                   .token = token_new(w), .headers = {bearer(w, TOKEN)});
    wait_until(front_metric(fe, "rlockd_waiters", NULL) == 1, SOON_MS);
    expect_status(lock_release(w->a, "busy", token), 200);
    expect_status(call_await(waiting, SOON_MS), 201);
    expect_room(fe, 1);
}

/* Several locks at once are one lease, and a permit is one. */
static void test_kinds_of_leases(struct world *w)
{
    struct front *fe = guarded(w);
    const char *set = hold(fe, "/v1/multi-locks?locks={m}1&locks={m}2&ttl_ms=60000");
    const char *permit;

    expect_room(fe, 1);
    expect_status(with(fe, "PUT", "/v1/permit-semaphores/p?permits=5", NULL), 201);
    permit = hold(fe, "/v1/permit-semaphores/p/permit?ttl_ms=60000");
    expect_room(fe, 0);
    expect_problem(with(fe, "PUT", "/v1/permit-semaphores/p/permit", token_new(w)), 429,
                   "limit-reached");
    expect_problem(with(fe, "PUT", "/v1/multi-locks?locks=m3", token_new(w)), 429,
                   "limit-reached");
    /* What is no lease is not limited. */
    expect_status(with(fe, "PUT", "/v1/semaphores/s?permits=5", NULL), 201);
    expect_status(with(fe, "POST", "/v1/semaphores/s/acquire", NULL), 200);
    expect_status(with(fe, "PATCH", "/v1/multi-locks", set), 200);
    expect_status(with(fe, "DELETE", "/v1/multi-locks", set), 200);
    expect_room(fe, 1);
    expect_status(with(fe, "DELETE", "/v1/permit-semaphores/p/permit", permit), 200);
    expect_room(fe, 2);
}

static struct reply *session(struct front *fe, const char *method, const char *path,
                             const char *header)
{
    return HTTP(fe, .method = method, .path = path,
                .headers = {header, bearer(fe->world, TOKEN)});
}

static void hold_for(struct front *fe, const char *path, const char *token, const char *header)
{
    expect_status(HTTP(fe, .method = "PUT", .path = path, .token = token,
                       .headers = {header, bearer(fe->world, TOKEN)}),
                  201);
}

static void test_sessions(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--workers", "2",
                                   "--watchdog-timeout-ms", "300", "--api-tokens",
                                   tokens_write(w, "tokens", TWO MANY), NULL);
    const char *header = text(w, "Session-Token: %s", token_new(w));
    const char *token = token_new(w), *path;
    int64_t granted_ms;
    struct reply *r = session(fe, "POST", "/v1/sessions?ttl_ms=600000", header);

    expect_status(r, 201);
    path = text(w, "/v1/sessions/%s", reply_str(r, "session_id"));
    hold_for(fe, "/v1/locks/kept", token, header);
    hold_for(fe, "/v1/locks/kept2", token_new(w), header);
    granted_ms = now_ms();
    /* The watchdog renews both, so they count for longer than its timeout. */
    wait_until(now_ms() >= granted_ms + 1000, SOON_MS);
    expect_room(fe, 0);
    /* Another front end releases a lease; a keep-alive here notices. */
    expect_status(lock_release(w->a, "kept", token), 200);
    expect_room(fe, 0);
    expect_status(session(fe, "POST", text(w, "%s/keep-alive", path), header), 200);
    expect_room(fe, 1);
    expect_status(session(fe, "DELETE", path, header), 200);
    expect_room(fe, 2);
}

static void test_a_reload_keeps_the_count(struct world *w)
{
    struct front *fe = guarded(w);
    json_t *line = NULL;

    hold(fe, "/v1/locks/reloaded?ttl_ms=60000");
    child_signal(fe->child, SIGHUP);
    wait_until((line = front_log_find(fe, "API tokens reloaded")) != NULL, SOON_MS);
    json_decref(line);
    expect_room(fe, 1);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_leases_end_here), E2E_TEST(test_leases_end_elsewhere),
        E2E_TEST(test_waiters_count),   E2E_TEST(test_kinds_of_leases),
        E2E_TEST(test_sessions),        E2E_TEST(test_a_reload_keeps_the_count),
    };
    struct e2e_plan plan = {.name = "lease_limit", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
