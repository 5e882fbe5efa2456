/* redis-quorum:// from its start: which settings and servers are refused, what /readyz says of
 * the servers, and the quarantine of servers that have just been started. */
#include "harness_session.h"
#include "quorum.h"
#include "sentinel.h"

#include <sys/stat.h>
#include <unistd.h>

enum { SOON_MS = 8000 };

static void test_refused_settings(struct world *w)
{
    static const struct {
        const char *url, *flag, *value, *word;
    } rows[] = {
        {"redis-quorum://h1", NULL, NULL, "3 or 5 hosts"},
        {"redis-quorum://h1,h2", NULL, NULL, "3 or 5 hosts"},
        {"redis-quorum://h1,h2,h3,h4", NULL, NULL, "3 or 5 hosts"},
        {"redis-quorum://h1,h2,h3,h4,h5,h6", NULL, NULL, "3 or 5 hosts"},
        {"redis-quorum://h1,h2,H1:6379", NULL, NULL, "twice"},
        {"redis-quorum://h1,h2,h3", "--sync-replicas", "1", "--sync-replicas"},
        {"redis-quorum://h1,h2,h3", "--quarantine-ms", "29999", "--watchdog-timeout-ms"},
        {"redis-quorum://h1,h2,h3", "--retry-window-ms", "120001", "--retry-window-ms"},
        {"redis-quorum://h1,h2,h3", "--fencing-ttl-ms", "120000", "--fencing-ttl-ms"},
        {"redis-quorum://h1,h2,h3", "--long-hold-ms", "1000", "--long-hold-ms"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *const args[] = {"--redis", rows[i].url, rows[i].flag, rows[i].value, NULL};
        struct child *child = rlockd_start(w, args, NULL);
        assert_int_equal(child_wait(child, SOON_MS), 2);
        if (strstr(child_stderr(child), rows[i].word) == NULL)
            FAIL("%s: %s", rows[i].word, child_stderr(child));
    }
}

/* --- servers that do not count ------------------------------------------------------------ */

static struct front *launch(struct world *w, struct redis *const *server)
{
    struct proxy *proxy[3];

    for (int i = 0; i < 3; i++)
        proxy[i] = proxy_start(server[i]);
    return front_launch(w, "--redis", quorum_url(w, proxy, 3), NULL);
}

static bool says(struct front *fe, int status, const char *word)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    const char *detail = reply_str(r, status == 503 ? "detail" : "redis.detail");

    return r->status == status && detail != NULL && strstr(detail, word) != NULL;
}

/* Two hosts of the URL are one server, which has one vote. The front end serves, for a majority
 * is there, and says that it is not ready. */
static void test_one_server_twice(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct redis *once[] = {q->server[0], q->server[0], q->server[1]};
    struct proxy *proxy[3];

    for (int i = 0; i < 3; i++)
        proxy[i] = proxy_start(once[i]);
    struct front *fe = front_launch(w, "--redis", quorum_url(w, proxy, 3), NULL);
    wait_until(says(fe, 503, "a server has one vote"), SOON_MS);
    for (int i = 0; i < 2; i++)
        expect_detail(http(fe, "GET", "/readyz", NULL),
                      text(w, "127.0.0.1:%d", proxy_port(proxy[i])));
    wait_until(lock_put(fe, "served", token_new(w), NULL)->status == 201, SOON_MS);
    /* The other host is tried now and then, and not all the time. */
    nap_ms(2000);
    double connects = front_metric(fe, "rlockd_redis_connects_total", NULL);
    nap_ms(3000);
    assert_true(front_metric(fe, "rlockd_redis_connects_total", NULL) - connects < 10);
    /* It says so for as long as nothing else is known. */
    proxy_set(proxy[0], PROXY_RESET);
    proxy_set(proxy[1], PROXY_RESET);
    wait_until(says(fe, 503, "1 of 3"), SOON_MS);
    for (int i = 0; i < 2; i++)
        proxy_set(proxy[i], PROXY_PASS);
    wait_until(says(fe, 503, "2 of 3") && says(fe, 503, "a server has one vote"), SOON_MS);
    struct redis *thrice[] = {q->server[0], q->server[0], q->server[0]};
    fe = launch(w, thrice);
    wait_until(says(fe, 503, "a server has one vote"), SOON_MS);
    expect_problem(lock_put(fe, "x", token_new(w), NULL), 503, "redis-unavailable");
    assert_false(redis_has(q->server[0], "x"));
}

static void test_unfit_servers(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    const char *const replica[] = {"--replicaof", q->server[0]->host,
                                   text(w, "%d", q->server[0]->port), NULL};
    static const char *const evicts[] = {"--maxmemory", "100mb", "--maxmemory-policy",
                                         "allkeys-lru", NULL};
    static const char *const node[] = {"--cluster-enabled", "yes", NULL};
    const struct {
        const char *const *flags;
        const char *word;
    } rows[] = {{replica, "replica"}, {evicts, "noeviction"}, {node, "node of a cluster"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct redis *unfit = redis_start_tcp(w, rows[i].flags);
        struct redis *one[] = {q->server[0], q->server[1], unfit};
        struct redis *two[] = {q->server[0], unfit, unfit};
        struct front *fe = launch(w, one);

        wait_until(says(fe, 200, rows[i].word) && strcmp(quorum_state(fe, 0), "up") == 0 &&
                       strcmp(quorum_state(fe, 1), "up") == 0,
                   SOON_MS);
        quorum_hold(fe, text(w, "unfit/%zu", i), "");
        fe = launch(w, two);
        wait_until(says(fe, 503, rows[i].word), SOON_MS);
    }
}

/* The offset is by the last reply: off by half of the time that the server stood still. */
static bool has_our_clock(struct front *fe, int server)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    const char *path = text(fe->world, "redis.members.%d.clock_offset_ms", server);

    return reply_get(r, path) != NULL && llabs(reply_int(r, path)) <= 500;
}

static double offset_s(struct front *fe, const char *label)
{
    return front_metric(fe, "rlockd_quorum_clock_offset_seconds", label);
}

/* --- readiness ---------------------------------------------------------------------------- */

static void test_readyz(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front front = quorum_front(q, NULL);
    struct reply *r = http(front.fe, "GET", "/readyz", NULL);

    expect_str(r, "redis.topology", "quorum");
    expect_str(r, "redis.members.0.host", text(w, "127.0.0.1:%d", proxy_port(front.proxy[0])));
    expect_absent(r, "redis.detail");
    wait_until(front_metric(front.fe, "rlockd_quorum_members", "state=\"up\"") == 3, SOON_MS);
    for (int i = 0; i < 3; i++) {
        wait_until(has_our_clock(front.fe, i), SOON_MS);
        const char *label = text(w, "member=\"127.0.0.1:%d\"", proxy_port(front.proxy[i]));
        assert_non_null(strstr(http(front.fe, "GET", "/metrics", NULL)->text, label));
        wait_until(offset_s(front.fe, label) >= -0.5 && offset_s(front.fe, label) <= 0.5,
                   SOON_MS);
    }
    proxy_set(front.proxy[1], PROXY_RESET);
    wait_until(says(front.fe, 200, "2 of 3"), SOON_MS);
    r = http(front.fe, "GET", "/readyz", NULL);
    expect_str(r, "redis.members.1.state", "down");
    wait_until(front_metric(front.fe, "rlockd_quorum_members", "state=\"down\"") == 1, SOON_MS);
    assert_null(strstr(http(front.fe, "GET", "/metrics", NULL)->text,
                       text(w, "member=\"127.0.0.1:%d\"", proxy_port(front.proxy[1]))));
    proxy_set(front.proxy[2], PROXY_RESET);
    wait_until(says(front.fe, 503, "1 of 3"), SOON_MS);
    for (int i = 1; i < 3; i++)
        proxy_set(front.proxy[i], PROXY_PASS);
    wait_until(quorum_all_up(front.fe), SOON_MS);
}

static double rounds(struct front *fe, const char *operation, const char *conclusion)
{
    return front_metric(
        fe, "rlockd_quorum_rounds_total",
        text(fe->world, "operation=\"%s\",conclusion=\"%s\"", operation, conclusion));
}

/* A server whose disk is full cannot vote, so it counts as one that is down. */
static void test_a_server_that_cannot_save(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    const char *obstacle = text(w, "%s/dump.rdb", q->server[1]->dir);

    redis_ok(q->server[1], "CONFIG SET save %s", "3600 1000000");
    unlink(obstacle);
    assert_int_equal(mkdir(obstacle, 0700), 0);
    redis_ok(q->server[1], "BGSAVE");
    wait_until(says(a.fe, 200, "cannot save"), SOON_MS);
    assert_string_equal(quorum_state(a.fe, 1), "down");
    wait_until(front_metric(a.fe, "rlockd_quorum_members", "state=\"down\"") == 1, SOON_MS);
    assert_true(front_metric(a.fe, "rlockd_redis_up", NULL) == 1);
    assert_int_equal(rmdir(obstacle), 0);
    redis_ok(q->server[1], "BGSAVE");
    wait_until(quorum_all_up(a.fe), SOON_MS);
    wait_until(front_metric(a.fe, "rlockd_quorum_members", "state=\"up\"") == 3, SOON_MS);
}

/* Each round is counted once, by what it was for and what was concluded. */
static void test_rounds_are_counted(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    const char *token = token_new(w);

    expect_status(lock_put(a.fe, "counted", token, NULL), 201);
    expect_status(lock_put(a.fe, "counted", token, NULL), 200);
    expect_status(lock_put(a.fe, "counted", token_new(w), NULL), 423);
    expect_bool(lock_look(a.fe, "counted"), "locked", true);
    expect_status(lock_renew(a.fe, "counted", token, NULL), 200);
    expect_status(lock_release(a.fe, "counted", token), 200);
    expect_status(lock_release(a.fe, "counted", token), 200);
    wait_until(rounds(a.fe, "release", "released") == 2, SOON_MS);
    assert_int_equal(rounds(a.fe, "vote", "granted"), 1);
    assert_int_equal(rounds(a.fe, "vote", "claim"), 1);
    assert_int_equal(rounds(a.fe, "claim", "held"), 1);
    assert_int_equal(rounds(a.fe, "vote", "busy"), 1);
    assert_int_equal(rounds(a.fe, "renew", "renewed"), 1);
    assert_int_equal(rounds(a.fe, "look", "locked"), 1);
    /* Two servers have seen a token beyond the clocks: a second round is for a higher one. */
    double before = front_metric(a.fe, "rlockd_quorum_token_rounds_total", NULL);
    const char *ahead = text(w, "%lld", (long long)(time(NULL) + 10) * 1000000);
    for (int i = 0; i < 2; i++)
        redis_ok(q->server[i], "SET redisson_lock_token:{ahead} %s PX 60000", ahead);
    struct reply *r = lock_put(a.fe, "ahead", token_new(w), NULL);
    expect_status(r, 201);
    expect_between(r, "fencing_token", atoll(ahead) + 1, INT64_MAX);
    wait_until(front_metric(a.fe, "rlockd_quorum_token_rounds_total", NULL) > before, SOON_MS);
}

/* The watchdog visits the session beside its client. */
static void test_rounds_of_sessions_are_counted(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, "--watchdog-timeout-ms", "1500", NULL);
    struct session s = session_new(a.fe, "ttl_ms=60000");

    expect_status(session_put(a.fe, &s, "watched", token_new(w), NULL), 201);
    wait_until(rounds(a.fe, "watch", "renewed") > 0, 10000);
    assert_true(rounds(a.fe, "due", "keep") > 0);
    expect_status(keep_alive(a.fe, &s, NULL), 200);
    expect_status(session_look(a.fe, s.id), 200);
    expect_status(session_end(a.fe, &s), 200);
    expect_status(session_look(a.fe, s.id), 404);
    wait_until(rounds(a.fe, "close", "closed") > 0, SOON_MS);
    assert_true(rounds(a.fe, "open", "keep") > 0);
    assert_true(rounds(a.fe, "keep-alive", "alive") > 0);
    assert_true(rounds(a.fe, "session", "keep") > 0);
    assert_true(rounds(a.fe, "session", "shut") > 0);
}

/* By its marker: before that is read, a server counts as quarantined for a second. */
enum { LONG_MS = 60000 };

static bool is_quarantined(struct front *fe, int server)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);

    return reply_int(r, text(fe->world, "redis.members.%d.quarantine_ms", server)) > LONG_MS;
}

/* Servers that were never seen before may have lost what they had. */
static void test_the_first_start(struct world *w)
{
    struct redis *server[] = {redis_start_tcp(w, NULL), redis_start_tcp(w, NULL),
                              redis_start_tcp(w, NULL)};
    struct front *fe = launch(w, server);

    wait_until(is_quarantined(fe, 0) && is_quarantined(fe, 1) && is_quarantined(fe, 2),
               SOON_MS);
    struct reply *r = http(fe, "GET", "/readyz", NULL);
    expect_status(r, 200);
    expect_between(r, "redis.quarantine_ms", LONG_MS, 120000);
    r = lock_put(fe, "first", token_new(w), NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "reason", "quarantine");
    expect_detail(r, ": quarantine;");
    expect_bool(lock_look(fe, "first"), "locked", false);
    quorum_trust(server[1]);
    wait_until(strcmp(quorum_state(fe, 1), "up") == 0, SOON_MS);
    expect_problem(lock_put(fe, "first", token_new(w), NULL), 503, "redis-unavailable");
    quorum_trust(server[2]);
    wait_until(strcmp(quorum_state(fe, 2), "up") == 0, SOON_MS);
    quorum_hold(fe, "first", "");
}

/* It ends by itself, on the clock of each server. */
static void test_the_end_of_the_quarantine(struct world *w)
{
    struct redis *server[] = {redis_start_tcp(w, NULL), redis_start_tcp(w, NULL),
                              redis_start_tcp(w, NULL)};
    struct proxy *proxy[] = {proxy_start(server[0]), proxy_start(server[1]),
                             proxy_start(server[2])};
    struct front *fe = front_start(w, "--redis", quorum_url(w, proxy, 3), "--quarantine-ms",
                                   "2000", "--watchdog-timeout-ms", "2000", "--retry-window-ms",
                                   "2000", NULL);

    wait_until(quorum_all_up(fe), SOON_MS);
    expect_status(lock_put(fe, "later", token_new(w), NULL), 201);
    expect_problem(lock_put(fe, "later/2", token_new(w), "ttl_ms=2001"), 400,
                   "malformed-request");
}

/* A server that comes back with its data may have missed the end of a lease: its hold counts
 * for nothing until a renewal has confirmed it. */
static void test_old_data_do_not_count(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    const char *token = token_new(w);
    struct reply *r = lock_put(a.fe, "old", token, "ttl_ms=100000");
    const char *check = lock_path(
        w, "old", text(w, "/fencing-tokens/%lld", (long long)reply_int(r, "fencing_token")));

    wait_until(quorum_holds(q, "old") == 3, SOON_MS);
    redis_kill(q->server[0]);
    redis_return(q->server[0]);
    wait_until(is_quarantined(a.fe, 0), SOON_MS);
    redis_freeze(q->server[1]);
    expect_bool(lock_look(a.fe, "old"), "locked", false);
    expect_problem(http(a.fe, "GET", check, NULL), 503, "redis-unavailable");
    expect_problem(lock_renew(a.fe, "old", token, NULL), 503, "redis-unavailable");
    redis_thaw(q->server[1]);
    wait_until(strcmp(quorum_state(a.fe, 1), "up") == 0, SOON_MS);
    expect_status(lock_renew(a.fe, "old", token, "ttl_ms=100000"), 200);
    wait_until(front_metric(a.fe, "rlockd_quorum_repairs_total", NULL) == 1, SOON_MS);
    redis_freeze(q->server[1]);
    expect_bool(lock_look(a.fe, "old"), "locked", true);
    expect_status(http(a.fe, "GET", check, NULL), 200);
    redis_thaw(q->server[1]);
}

/* rlock holds its locks by a session of a majority. */
static void test_rlock(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, NULL);
    const char *binary = rlockd_binary(), *end = strrchr(binary, '/');
    int code;
    const char *said = shell_run(
        w, &code,
        text(w, "env RLOCK_URL=http://127.0.0.1:%d timeout 60 %.*s/rlock run x echo done 2>&1",
             a.fe->port, (int)(end - binary), binary));

    if (code != 0 || strcmp(said, "done\n") != 0)
        FAIL("rlock ended with %d and said: %s", code, said);
}

static const struct e2e_test tests[] = {
    E2E_TEST(test_refused_settings),
    E2E_TEST(test_one_server_twice),
    E2E_TEST(test_unfit_servers),
    E2E_TEST(test_readyz),
    E2E_TEST(test_a_server_that_cannot_save),
    E2E_TEST(test_rounds_are_counted),
    E2E_TEST(test_rounds_of_sessions_are_counted),
    E2E_TEST(test_the_first_start),
    E2E_TEST(test_the_end_of_the_quarantine),
    E2E_TEST(test_old_data_do_not_count),
    E2E_TEST(test_rlock),
};

int main(void)
{
    static const struct e2e_plan plan = {
        .name = "quorum_start", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
