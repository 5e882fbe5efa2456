/* API tokens: verbs, names, dates, limits, and a file that changes. */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define READ_TOKEN "read-secret-aaaaaaaa"
#define LOCK_TOKEN "lock-secret-bbbbbbbb"
#define OPERATE_TOKEN "operate-secret-cccccc"
#define OTHER_TOKEN "other-secret-dddddddd"

enum { SOON_MS = 5000 };

static struct front *guarded(struct world *w, const char *lines)
{
    return front_start(w, "--redis", w->redis->url, "--workers", "2", "--api-tokens",
                       tokens_write(w, "tokens", lines), NULL);
}

static struct reply *as(struct front *fe, const char *token, const char *method,
                        const char *path)
{
    struct world *w = fe->world;

    return HTTP(fe, .method = method, .path = path,
                .token = strcmp(method, "POST") != 0 ? token_new(w) : NULL,
                .headers = {bearer(w, token)});
}

static struct call *wait_as(struct front *fe, const char *token, const char *path)
{
    struct world *w = fe->world;

    return CALL(fe, .method = "PUT", .path = path, .token = token_new(w),
                .headers = {bearer(w, token)});
}

static bool has_logged(struct front *fe, const char *msg)
{
    json_t *line = front_log_find(fe, msg);

    json_decref(line);
    return line != NULL;
}

/* --- who may do what ---------------------------------------------------------------------- */

static void test_names(struct world *w)
{
    static const char *const open[] = {"/livez",        "/readyz", "/metrics",     "/version",
                                       "/openapi.yaml", "/",       "/page/page.js"};
    struct front *fe = guarded(w, "# who may do what\n\n"
                                  "deployer {" LOCK_TOKEN "} lock=deploy/ read=deploy/\n"
                                  "admin {" OPERATE_TOKEN "} lock=* read=* operate=*\n");
    struct reply *r = lock_put(fe, "deploy/x", token_new(w), NULL);

    expect_problem(r, 401, "unauthenticated");
    assert_string_equal(reply_header(w, r, "WWW-Authenticate"), "Bearer");
    r = as(fe, "nobody-aaaaaaaaaaaaaa", "PUT", "/v1/locks/deploy%2Fx");
    expect_problem(r, 401, "unauthenticated");
    assert_string_equal(reply_header(w, r, "WWW-Authenticate"),
                        "Bearer error=\"invalid_token\"");
    expect_problem(as(fe, LOCK_TOKEN, "PUT", "/v1/locks/other"), 403, "forbidden");
    expect_problem(as(fe, LOCK_TOKEN, "GET", "/v1/locks/other"), 403, "forbidden");
    expect_status(as(fe, LOCK_TOKEN, "PUT", "/v1/locks/deploy%2Fx"), 201);
    expect_problem(as(fe, LOCK_TOKEN, "POST", "/v1/locks/deploy%2Fx/force-unlock"), 403,
                   "forbidden");
    expect_problem(as(fe, LOCK_TOKEN, "GET", "/v1/locks"), 403, "forbidden");
    expect_problem(as(fe, LOCK_TOKEN, "GET", "/v1/locks?prefix=dep"), 403, "forbidden");
    expect_status(as(fe, LOCK_TOKEN, "GET", "/v1/locks?prefix=deploy/x"), 200);
    expect_status(as(fe, OPERATE_TOKEN, "GET", "/v1/locks"), 200);
    expect_bool(as(fe, OPERATE_TOKEN, "POST", "/v1/locks/deploy%2Fx/force-unlock"), "unlocked",
                true);
    expect_status(as(fe, OPERATE_TOKEN, "PUT", "/v1/locks/other"), 201);
    for (size_t i = 0; i < COUNT_OF(open); i++)
        expect_status(http(fe, "GET", open[i], NULL), 200);
    assert_null(strstr(front_log(fe), "secret"));
    wait_until(strstr(front_log(fe), "\"caller\":\"deployer\"") != NULL, 5000);
}

/* Each operation with each of three callers that have one right each. */
static void test_verbs(struct world *w)
{
    static const struct {
        const char *method, *path, *verb;
    } rows[] = {
        {"GET", "/v1/locks", "read"},
        {"GET", "/v1/locks/v", "read"},
        {"GET", "/v1/locks/v/fencing-tokens/1", "read"},
        {"PUT", "/v1/locks/v", "lock"},
        {"POST", "/v1/locks/v", "lock"},
        {"PATCH", "/v1/locks/v", "lock"},
        {"DELETE", "/v1/locks/v", "lock"},
        {"POST", "/v1/locks/v/force-unlock", "operate"},
        {"GET", "/v1/multi-locks?locks=v", "read"},
        {"PUT", "/v1/multi-locks?locks=v2", "lock"},
        {"POST", "/v1/multi-locks?locks=v3", "lock"},
        {"PATCH", "/v1/multi-locks?locks=v", "lock"},
        {"DELETE", "/v1/multi-locks?locks=v", "lock"},
        {"GET", "/v1/sessions", "read"},
        {"GET", "/v1/sessions/599c558f-300f-5eb2-ad93-a562f0c841c1", "read"},
        {"POST", "/v1/sessions", "lock"},
        {"DELETE", "/v1/sessions/599c558f-300f-5eb2-ad93-a562f0c841c1", "lock"},
        {"POST", "/v1/sessions/599c558f-300f-5eb2-ad93-a562f0c841c1/keep-alive", "lock"},
        {"POST", "/v1/sessions/599c558f-300f-5eb2-ad93-a562f0c841c1/force-end", "operate"},
        {"PUT", "/v1/semaphores/s?permits=1", "lock"},
        {"GET", "/v1/semaphores/s", "read"},
        {"POST", "/v1/semaphores/s/acquire", "lock"},
        {"POST", "/v1/semaphores/s/release", "lock"},
        {"POST", "/v1/semaphores/s/drain", "lock"},
        {"DELETE", "/v1/semaphores/s", "operate"},
        {"PUT", "/v1/permit-semaphores/p?permits=1", "lock"},
        {"GET", "/v1/permit-semaphores/p", "read"},
        {"PUT", "/v1/permit-semaphores/p/permit", "lock"},
        {"PATCH", "/v1/permit-semaphores/p/permit", "lock"},
        {"DELETE", "/v1/permit-semaphores/p/permit", "lock"},
        {"DELETE", "/v1/permit-semaphores/p", "operate"},
        {"PUT", "/v1/latches/l?count=1", "lock"},
        {"GET", "/v1/latches/l", "read"},
        {"POST", "/v1/latches/l/count-down", "lock"},
        {"DELETE", "/v1/latches/l", "operate"},
        {"LOCK", "/terraform/v", "lock"},
        {"POST", "/fleetlock/v1/pre-reboot", "lock"},
        {"POST", "/fleetlock/v1/steady-state", "lock"},
        {"GET", "/lfs/r/locks", "read"},
        {"POST", "/lfs/r/locks", "lock"},
        {"POST", "/lfs/r/locks/verify", "lock"},
        {"POST", "/lfs/r/locks/v/unlock", "lock"},
    };
    static const struct {
        const char *token, *verb;
    } callers[] = {{READ_TOKEN, "read"}, {LOCK_TOKEN, "lock"}, {OPERATE_TOKEN, "operate"}};
    struct front *fe = guarded(w, "viewer {" READ_TOKEN "} read=*\n"
                                  "worker {" LOCK_TOKEN "} lock=*\n"
                                  "admin {" OPERATE_TOKEN "} operate=*\n");

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t c = 0; c < COUNT_OF(callers); c++) {
            struct reply *r = as(fe, callers[c].token, rows[i].method, rows[i].path);
            if (strcmp(callers[c].verb, rows[i].verb) != 0) {
                expect_status(r, 403); /* in the form of the route's protocol */
                expect_str(r, "verb", rows[i].verb);
                expect_detail(r, text(w, "needs the verb %s", rows[i].verb));
            } else if (r->status == 401 || reply_get(r, "verb") != NULL) {
                FAIL("%s %s: %d %s", rows[i].method, rows[i].path, r->status, r->text);
            }
        }
    }
}

/* The name of the object is in the body. */
static void test_names_of_other_protocols(struct world *w)
{
    static const struct {
        const char *path, *body, *key;
    } rows[] = {
        {"/fleetlock/v1/pre-reboot", "{\"client_params\":{\"id\":\"m\",\"group\":\"g\"}}",
         "fleetlock/g"},
        {"/lfs/theirs/locks", "{\"path\":\"a\"}", "lfs/theirs/a"},
    };
    struct front *fe = guarded(w, "worker {" LOCK_TOKEN "} lock=deploy/\n");

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        expect_status(HTTP(fe, .method = "POST", .path = rows[i].path, .body = rows[i].body,
                           .headers = {bearer(w, LOCK_TOKEN), "fleet-lock-protocol: true"}),
                      403);
        assert_false(redis_has(w->redis, rows[i].key));
    }
}

/* --- dates -------------------------------------------------------------------------------- */

static const char *date_in(struct world *w, int seconds)
{
    time_t then = time(NULL) + seconds;
    char date[32];

    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&then));
    return text(w, "%s", date);
}

static void test_expiry(struct world *w)
{
    int lasts_s = (int)patience_ms(3000) / 1000;
    struct front *fe = guarded(w, text(w,
                                       "old {" OTHER_TOKEN "} lock=* expires=%s\n"
                                       "brief {" LOCK_TOKEN "} lock=* expires=%s\n",
                                       date_in(w, -1), date_in(w, lasts_s)));
    struct reply *r = as(fe, OTHER_TOKEN, "PUT", "/v1/locks/date");
    struct call *waiting;

    expect_problem(r, 401, "unauthenticated");
    expect_detail(r, "has expired");
    expect_status(
        as(fe, LOCK_TOKEN, "PUT", text(w, "/v1/locks/date?ttl_ms=%d", lasts_s * 1000 + 3000)),
        201);
    waiting = wait_as(fe, LOCK_TOKEN, "/v1/locks/date?wait_ms=50000");
    wait_until(as(fe, LOCK_TOKEN, "PUT", "/v1/locks/free")->status == 401, SOON_MS);
    /* What came in time keeps its right. */
    expect_status(call_await(waiting, 20000), 201);
}

/* --- a file that changes ------------------------------------------------------------------ */

static void test_sighup_drops_no_waiter(struct world *w)
{
    struct front *fe = guarded(w, "ci {" LOCK_TOKEN "} lock=*\n");
    struct call *stays, *goes;

    expect_status(as(fe, LOCK_TOKEN, "PUT", "/v1/locks/hup?ttl_ms=60000"), 201);
    goes = wait_as(fe, LOCK_TOKEN, "/v1/locks/hup?wait_ms=30000");
    wait_until(front_metric(fe, "rlockd_waiters", NULL) == 1, SOON_MS);
    expect_problem(as(fe, OTHER_TOKEN, "PUT", "/v1/locks/a"), 401, "unauthenticated");

    tokens_write(w, "tokens", "ci {" OTHER_TOKEN "} lock=*\nmore {" READ_TOKEN "} lock=de");
    child_signal(fe->child, SIGHUP); /* the file is cut */
    wait_until(has_logged(fe, "API tokens not reloaded"), SOON_MS);
    assert_non_null(strstr(front_log(fe), "tokens line 2: the last line does not end"));
    expect_problem(as(fe, OTHER_TOKEN, "PUT", "/v1/locks/a"), 401, "unauthenticated");
    expect_status(as(fe, LOCK_TOKEN, "PUT", "/v1/locks/b"), 201);

    tokens_write(w, "tokens", "ci {" OTHER_TOKEN "} lock=* operate=*\n");
    child_signal(fe->child, SIGHUP);
    wait_until(has_logged(fe, "API tokens reloaded"), SOON_MS);
    expect_status(as(fe, OTHER_TOKEN, "PUT", "/v1/locks/c"), 201);
    expect_problem(as(fe, LOCK_TOKEN, "PUT", "/v1/locks/d"), 401, "unauthenticated");
    stays = wait_as(fe, OTHER_TOKEN, "/v1/locks/hup?wait_ms=30000&ttl_ms=100");
    wait_until(front_metric(fe, "rlockd_waiters", NULL) == 2, SOON_MS);
    assert_false(call_done(goes));
    expect_bool(as(fe, OTHER_TOKEN, "POST", "/v1/locks/hup/force-unlock"), "unlocked", true);
    /* The token of the first is gone; its request came in time and keeps its right. */
    wait_until(call_done(goes) || call_done(stays), SOON_MS);
    as(fe, OTHER_TOKEN, "POST", "/v1/locks/hup/force-unlock");
    expect_status(call_await(goes, SOON_MS), 201);
    as(fe, OTHER_TOKEN, "POST", "/v1/locks/hup/force-unlock");
    expect_status(call_await(stays, SOON_MS), 201);
}

/* --- limits ------------------------------------------------------------------------------- */

#define FEW "few {" LOCK_TOKEN "} lock=* read=* max-waiters=2\n"
#define MANY "many {" OTHER_TOKEN "} lock=* read=* operate=*\n"

/* Two requests of the caller wait; a third one may not. */
static void expect_limit(struct front *fe, const char *lock, struct call *waiting[2],
                         const char *query)
{
    struct world *w = fe->world;
    const char *path = text(w, "/v1/locks/%s?%s", lock, query);
    double before = front_metric(fe, "rlockd_waiters", NULL);
    struct reply *r;

    for (int i = 0; i < 2; i++)
        waiting[i] = wait_as(fe, LOCK_TOKEN, path);
    wait_until(front_metric(fe, "rlockd_waiters", NULL) == before + 2, SOON_MS);
    r = as(fe, LOCK_TOKEN, "PUT", path);
    expect_problem(r, 429, "limit-reached");
    expect_detail(r, "wait");
    assert_false(call_done(waiting[0]));
    assert_false(call_done(waiting[1]));
}

static void expect_none_waits(struct front *fe, const char *lock)
{
    wait_until(front_metric(fe, "rlockd_waiters", NULL) == 0, SOON_MS);
    wait_until(waiter_count(fe->world->a, lock) == 0, SOON_MS);
}

/* However a wait ends, its place is free again: the next two may wait, and no third. */
static void test_waiters_are_given_back(struct world *w)
{
    struct front *fe = guarded(w, FEW MANY);
    struct call *waiting[2];

    expect_status(as(fe, OTHER_TOKEN, "PUT", "/v1/locks/ended?ttl_ms=600000"), 201);
    expect_limit(fe, "ended", waiting, "wait_ms=30000"); /* the clients hang up */
    call_hang_up(waiting[0]);
    call_hang_up(waiting[1]);
    expect_none_waits(fe, "ended");
    /* Their time is over, some seconds after a page of metrics has shown them. */
    expect_limit(fe, "ended", waiting, text(w, "wait_ms=%d", 3000 + (int)patience_ms(3000)));
    expect_problem(call_await(waiting[0], 6000 + SOON_MS), 423, "locked");
    expect_problem(call_await(waiting[1], SOON_MS), 423, "locked");
    expect_none_waits(fe, "ended");
    expect_limit(fe, "ended", waiting, "wait_ms=30000&ttl_ms=100"); /* they are served */
    as(fe, OTHER_TOKEN, "POST", "/v1/locks/ended/force-unlock");
    expect_status(call_await(waiting[0], SOON_MS), 201);
    expect_status(call_await(waiting[1], SOON_MS), 201);
    expect_none_waits(fe, "ended");
    expect_status(as(fe, OTHER_TOKEN, "PUT", "/v1/locks/ended?ttl_ms=600000&wait_ms=5000"),
                  201);
    expect_limit(fe, "ended", waiting, "wait_ms=30000");
    /* What need not wait is not limited, and no other caller is. */
    expect_status(as(fe, LOCK_TOKEN, "PUT", "/v1/locks/at-once?wait_ms=30000"), 201);
    expect_problem(as(fe, LOCK_TOKEN, "PUT", "/v1/locks/ended"), 423, "locked");
    expect_problem(as(fe, OTHER_TOKEN, "PUT", "/v1/locks/ended?wait_ms=100"), 423, "locked");
    front_stop(fe); /* a drain ends both */
    expect_problem(call_await(waiting[0], SOON_MS), 503, "draining");
    expect_problem(call_await(waiting[1], SOON_MS), 503, "draining");
}

/* A reload forgets nobody who waits. */
static void test_a_reload_keeps_the_count(struct world *w)
{
    struct front *fe = guarded(w, FEW MANY);
    struct call *waiting[2];

    expect_status(as(fe, OTHER_TOKEN, "PUT", "/v1/locks/reloaded?ttl_ms=600000"), 201);
    expect_limit(fe, "reloaded", waiting, "wait_ms=30000");
    child_signal(fe->child, SIGHUP);
    wait_until(has_logged(fe, "API tokens reloaded"), SOON_MS);
    expect_problem(as(fe, LOCK_TOKEN, "PUT", "/v1/locks/reloaded?wait_ms=30000"), 429,
                   "limit-reached");
    call_hang_up(waiting[0]);
    call_hang_up(waiting[1]);
    expect_none_waits(fe, "reloaded");
    expect_limit(fe, "reloaded", waiting, "wait_ms=30000");
}

/* A caller at its limit leaves no place in a fair queue, and its keep-alive does not hang. */
static void test_the_limit_leaves_nothing(struct world *w)
{
    const char *session = token_new(w), *header = text(w, "Session-Token: %s", session);
    struct front *fe = guarded(w, FEW MANY);
    struct call *waiting[2];
    struct reply *r;

    r = HTTP(fe, .method = "POST", .path = "/v1/sessions?ttl_ms=60000",
             .headers = {header, bearer(w, LOCK_TOKEN)});
    expect_status(r, 201);
    expect_status(as(fe, OTHER_TOKEN, "PUT", "/v1/locks/queued?kind=fair&ttl_ms=600000"), 201);
    expect_limit(fe, "queued", waiting, "wait_ms=30000&kind=fair");
    wait_until(waiter_count(w->a, "queued") == 2, SOON_MS);
    r = HTTP(
        fe, .method = "POST",
        .path = text(w, "/v1/sessions/%s/keep-alive?wait_ms=30000", reply_str(r, "session_id")),
        .headers = {header, bearer(w, LOCK_TOKEN)}, .timeout_ms = 15000);
    expect_status(r, 200);
    call_hang_up(waiting[0]);
    call_hang_up(waiting[1]);
    expect_none_waits(fe, "queued");
}

/* The bound holds over all workers, whatever the machine's speed. */
static void test_requests_a_second(struct world *w)
{
    enum { RATE = 5, ASKED = 60 };
    struct front *fe = guarded(w,
                               "slow {" LOCK_TOKEN "} read=* max-requests-per-second=5\n" MANY);
    int64_t begin_ms = now_ms();
    int served = 0, refused = 0;

    for (int i = 0; i < ASKED; i++) {
        struct reply *r = as(fe, LOCK_TOKEN, "GET", "/v1/locks/x");
        served += r->status == 200;
        refused += r->status == 429;
        if (r->status == 429)
            expect_problem(r, 429, "limit-reached");
    }
    int64_t most = RATE + (now_ms() - begin_ms) * RATE / 1000 + 1;
    assert_int_equal(served + refused, ASKED);
    assert_true(served >= 1);
    assert_true(served <= most);
    expect_status(as(fe, OTHER_TOKEN, "GET", "/v1/locks/x"), 200);
    wait_until(as(fe, LOCK_TOKEN, "GET", "/v1/locks/x")->status == 200, SOON_MS);
}

/* --- rlockd --hash-token and --make-token --------------------------------------------------
 */

static struct child *rlockd_shell(struct world *w, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, rlockd_binary(), NULL};
    struct child *child = child_start(w, "shell", argv, NULL);

    child_wait(child, SOON_MS);
    return child;
}

static void test_tokens_are_made_and_hashed(struct world *w)
{
    const char *path = text(w, "%s/made", w->dir);
    struct child *child = rlockd_shell(w, text(w,
                                               "\"$0\" --make-token | tee '%s.token' | "
                                               "\"$0\" --hash-token ci | tee '%s'",
                                               path, path));
    char token[128] = "";
    FILE *file = fopen(text(w, "%s.token", path), "re");

    assert_non_null(file);
    assert_non_null(fgets(token, sizeof(token), file));
    fclose(file);
    token[strcspn(token, "\n")] = '\0';
    assert_true(strncmp(token, "rlockd_", 7) == 0 && strlen(token) == 7 + 48);
    assert_non_null(strstr(child_stdout(child), "ci sha256:"));
    assert_null(strstr(child_stdout(child), token));
    struct front *fe = front_start(w, "--redis", w->redis->url, "--api-tokens", path, NULL);
    expect_status(as(fe, token, "PUT", "/v1/locks/made"), 201);
    expect_status(as(fe, token, "GET", "/v1/locks/made"), 200);
    expect_problem(as(fe, token, "POST", "/v1/locks/made/force-unlock"), 403, "forbidden");
}

static void test_weak_tokens_are_refused(struct world *w)
{
    static const char *const bad[] = {
        "printf short | \"$0\" --hash-token",
        "printf 'has a blank in the middle' | \"$0\" --hash-token",
        "printf 'aaaaaaaaaaaaaaaaaaaa\\nbbbbbbbbbbbbbbbbbbbbb\\n' | \"$0\" --hash-token",
        "\"$0\" --hash-token < /dev/null",
        "printf 'aaaaaaaaaaaaaaaaaaaa' | \"$0\" --hash-token 'a b'",
        "printf 'aaaaaaaaaaaaaaaaaaaa' | \"$0\" --hash-token \"$(printf 'a\\001b')\"",
        "printf 'aaaaaaaaaaaaaaaaaaaa' | \"$0\" --hash-token \"$(printf 'a\\377')\"",
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct child *child = rlockd_shell(w, text(w, "%s; echo $? >&2", bad[i]));
        assert_string_equal(child_stdout(child), "");
        assert_non_null(strstr(child_stderr(child), "rlockd: --hash-token: "));
        assert_non_null(strstr(child_stderr(child), "\n2\n"));
    }
}

/* A person who types a token ends it with Enter, and types no line behind it. */
static void test_a_token_that_is_typed(struct world *w)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios settings;
    char name[64];

    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    assert_int_equal(ptsname_r(terminal, name, sizeof(name)), 0);
    const char *script = text(w, "\"$0\" --hash-token ci <'%s'", name);
    const char *const argv[] = {"sh", "-c", script, rlockd_binary(), NULL};
    struct child *child = child_start(w, "shell", argv, NULL);
    /* The terminal throws away the bytes that came before the echo went off. */
    wait_until(tcgetattr(terminal, &settings) == 0 && !(settings.c_lflag & ECHO), SOON_MS);
    assert_int_equal(write(terminal, LOCK_TOKEN "\n", sizeof(LOCK_TOKEN)), sizeof(LOCK_TOKEN));
    assert_int_equal(child_wait(child, SOON_MS), 0);
    assert_non_null(strstr(child_stdout(child), "ci sha256:"));
    close(terminal);
}

/* A script must not go on with an empty file of tokens. */
static void test_output_that_cannot_be_written(struct world *w)
{
    static const char *const commands[] = {
        "\"$0\" --make-token > /dev/full",
        "printf 'aaaaaaaaaaaaaaaaaaaa' | \"$0\" --hash-token ci > /dev/full",
        "\"$0\" --help > /dev/full",
        "\"$0\" --version > /dev/full",
    };

    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        struct child *child = rlockd_shell(w, text(w, "%s; echo $? >&2", commands[i]));
        assert_string_equal(child_stderr(child),
                            "rlockd: standard output cannot be written\n1\n");
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_names),
        E2E_TEST(test_verbs),
        E2E_TEST(test_names_of_other_protocols),
        E2E_TEST(test_expiry),
        E2E_TEST(test_sighup_drops_no_waiter),
        E2E_TEST(test_waiters_are_given_back),
        E2E_TEST(test_a_reload_keeps_the_count),
        E2E_TEST(test_the_limit_leaves_nothing),
        E2E_TEST(test_requests_a_second),
        E2E_TEST(test_tokens_are_made_and_hashed),
        E2E_TEST(test_weak_tokens_are_refused),
        E2E_TEST(test_a_token_that_is_typed),
        E2E_TEST(test_output_that_cannot_be_written),
    };
    struct e2e_plan plan = {.name = "api_tokens", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
