/* Nothing that clients do makes the server grow, or stop serving others, without a limit. */
#include "harness_session.h"

#include <limits.h>
#include <unistd.h>

#define CROWD_TOKEN "crowd-secret-aaaaaaaa"
#define OTHER_TOKEN "other-secret-bbbbbbbb"

enum {
    SOON_MS = 5000,
    LOCKS = 1000,
    NAME_LEN = 500,
    READERS = 300,
    TIMES_MAX = 3,
    TURN_MS = 2000, /* a listing that has waited longer for its turn is refused */
    DESCRIPTIONS = 20,
    LOOKS = 100,
    LOOKS_MS = 20000,
    GROWTH_KIB_MAX = 64 * 1024
};

static long rss_kib(const struct front *fe)
{
    char path[64], line[256];
    long kib = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", child_pid(fe->child));
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

/* A sanitizer keeps what was freed, and valgrind has memory of its own. */
static long growth_kib_max(void)
{
#ifdef SANITIZED
    return LONG_MAX;
#else
    return getenv("RLOCKD_WRAP") != NULL ? LONG_MAX : GROWTH_KIB_MAX;
#endif
}

/* No more than what a crowd may cost, beyond what the server had before. */
static void check_growth(const char *what, long before, long peak)
{
    print_message("%s: %ld KiB more\n", what, peak - before);
    if (peak - before > growth_kib_max())
        FAIL("%s: grew from %ld to %ld KiB", what, before, peak);
}

static long peak_kib(const struct front *fe, int ms)
{
    long peak = 0;

    for (int64_t end = now_ms() + ms; now_ms() < end; nap_ms(20))
        peak = rss_kib(fe) > peak ? rss_kib(fe) : peak;
    return peak;
}

/* A front end that is busy with a crowd may take Redis for silent, and answer 503 for once. */
static void expect_served(struct front *fe, const char *lock)
{
    const char *token = token_new(fe->world);

    wait_until(lock_put(fe, lock, token, NULL)->status / 100 == 2, SOON_MS);
}

static void hold_many(struct world *w)
{
    char name[NAME_LEN + 1];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, 16, "many/%06d/", i);
        name[strlen(name)] = 'n';
        redis_ok(w->redis, "HSET %s %s 1", name, JAVA_HOLDER);
        redis_ok(w->redis, "PEXPIRE %s 600000", name);
    }
}

/* Clients that ask for large listings and never read them. */
static void test_listings_that_nobody_reads(struct world *w)
{
    static struct raw *readers[READERS];
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);
    long before, peak;

    hold_many(w);
    before = rss_kib(fe);
    for (int i = 0; i < READERS; i++) {
        readers[i] = raw_open(fe);
        raw_text(readers[i], "GET /v1/locks?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    peak = peak_kib(fe, 3000);
    for (int i = 0; i < READERS; i++) /* asked for once more by those that were refused */
        raw_text(readers[i], "GET /v1/locks?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n");
    peak = peak > peak_kib(fe, 2000) ? peak : peak_kib(fe, 100);
    check_growth("listings that nobody reads", before, peak);
    assert_true(front_metric(fe, "rlockd_refused_large_answers_total", NULL) > READERS / 2);
    expect_served(fe, "bystander");
    for (int i = 0; i < READERS; i++)
        raw_reset(readers[i]);
    wait_until(http(fe, "GET", "/v1/locks?limit=1000", NULL)->status == 200, SOON_MS);
    wait_until(rss_kib(fe) - before < growth_kib_max() / 2, SOON_MS);
}

/* Clients that ask for the API's description again and again, and never read: it is in memory
 * once, and what the kernel has not taken over is not asked for. */
static void test_descriptions_that_nobody_reads(struct world *w)
{
    static struct raw *readers[READERS];
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);
    long before, peak;

    expect_status(http(fe, "GET", "/openapi.yaml", NULL), 200);
    before = rss_kib(fe);
    for (int i = 0; i < READERS; i++) {
        readers[i] = raw_open(fe);
        for (int n = 0; n < DESCRIPTIONS; n++)
            raw_text(readers[i], "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    peak = peak_kib(fe, 1000);
    check_growth("descriptions that nobody reads", before, peak);
    expect_served(fe, "read-nothing");
    for (int i = 0; i < READERS; i++)
        raw_reset(readers[i]);
}

/* One listing of a client is under way, a few wait for their turn, and those that are refused
 * learn of the limit. Before its turn comes on a late machine, a listing has waited for so long
 * that it is refused, too. */
static void test_refused_listing(struct world *w)
{
    struct call *calls[40];
    int refused = 0;

    hold_many(w);
    int64_t from_ms = now_ms();
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        calls[i] = CALL(w->a, .method = "GET", .path = "/v1/locks?limit=1000");
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct reply *r = call_await(calls[i], SOON_MS);

        if (r->status != 200) {
            expect_problem(r, 429, "limit-reached");
            expect_detail(r, "caller");
            expect_between(r, "limit", 1, 100);
            refused++;
        }
    }
    assert_in_range(refused, 1, COUNT_OF(calls) - (now_ms() - from_ms < TURN_MS ? 4 : 1));
    expect_status(http(w->a, "GET", "/v1/locks?limit=1000", NULL), 200);
}

static struct call *list_as(struct front *fe, const char *token, const char *prefix)
{
    struct world *w = fe->world;

    return CALL(fe, .method = "GET", .path = text(w, "/v1/locks?limit=1000&prefix=%s", prefix),
                .headers = {bearer(w, token)});
}

/* Each caller uses up its own share: what one has under way is no other caller's limit. */
static void test_listings_of_two_callers(struct world *w)
{
    enum { CROWD = 34, ROUNDS = 25 };
    static struct call *crowd[CROWD];
    const char *tokens = tokens_write(w, "tokens",
                                      "crowd {" CROWD_TOKEN "} read=many/\n"
                                      "other {" OTHER_TOKEN "} read=own\n");
    struct front *fe = front_start(w, "--redis", w->redis->url, "--api-tokens", tokens, NULL);
    int refused = 0;

    hold_many(w);
    redis_ok(w->redis, "HSET own %s 1", JAVA_HOLDER);
    redis_ok(w->redis, "PEXPIRE own 600000");
    for (int i = 0; i < CROWD; i++)
        crowd[i] = list_as(fe, CROWD_TOKEN, "many/");
    for (int round = 0; round < ROUNDS; round++) {
        struct reply *other;
        int times = 0;
        do /* again, if its turn came late, for the machine stood still */
            other = call_await(list_as(fe, OTHER_TOKEN, "own"), SOON_MS);
        while (other->status == 429 && other->done_ms - other->sent_ms >= TURN_MS &&
               ++times < TIMES_MAX);
        expect_status(other, 200);
        for (int i = 0; i < CROWD; i++) {
            if (!call_done(crowd[i]))
                continue;
            refused += call_await(crowd[i], SOON_MS)->status == 429;
            crowd[i] = list_as(fe, CROWD_TOKEN, "many/");
        }
    }
    assert_true(refused > 0);
    for (int i = 0; i < CROWD; i++)
        call_await(crowd[i], SOON_MS);
}

/* As many leases as the session may have. */
static void hold_leases(struct front *fe, const struct session *s)
{
    char path[NAME_LEN + 64], token[UUID_SIZE];
    struct rest rest;

    rest_init(&rest);
    for (int i = 0; i < LOCKS; i++) {
        uuid_make(token);
        snprintf(path, sizeof(path), "/v1/locks/%0*d?ttl_ms=600000", NAME_LEN - 100, i);
        assert_int_equal(rest_ask(&rest, fe->port, "PUT", path, token, s->token, NULL), 201);
    }
    rest_free(&rest);
}

/* Whether the session lives, and the answer tells nothing of its leases and losses. */
static bool has_no_leases(struct reply *r)
{
    expect_status(r, 200);
    expect_between(r, "remaining_ms", 500000, 600000);
    return json_object_get(r->json, "leases") == NULL &&
           json_object_get(r->json, "lost") == NULL;
}

/* A session with as many leases as it may have, looked at by a crowd: memory for a few of the
 * looks at a time, and no client waits for longer than Redis may take. */
static void test_looks_at_a_large_session(struct world *w)
{
    static struct call *calls[LOOKS];
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);
    struct session s = session_new(fe, "ttl_ms=600000");
    int answered = 0;

    hold_leases(fe, &s);
    long before = rss_kib(fe);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        calls[i] = CALL(fe, .method = "GET",
                        .path = text(w, "/v1/sessions/%s?limit=1000", s.id));
    long peak = peak_kib(fe, 3000);
    check_growth("looks at a session with 1,000 leases", before, peak);
    expect_served(fe, "beside-looks");
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct reply *r = call_await(calls[i], LOOKS_MS);
        answered += r->status == 200;
        if (r->status != 200 && r->status != 429)
            expect_problem(r, 503, "redis-unavailable");
    }
    assert_true(answered > 0);
    const char *path = text(w, "/v1/sessions/%s?limit=1000", s.id);
    struct reply *r;
    wait_until((r = http(fe, "GET", path, NULL))->status == 200, SOON_MS);
    assert_int_equal(json_array_size(json_object_get(r->json, "leases")), LOCKS);
    expect_status(session_end(fe, &s), 200);
}

/* Clients that send keep-alives of a large session and never read the answers: the session
 * lives on, and an answer that would not be read has no leases. */
static void test_keep_alives_that_nobody_reads(struct world *w)
{
    static struct raw *readers[READERS];
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);
    struct session s = session_new(fe, "ttl_ms=600000");
    struct reply *last;
    int times = 0;
    long before;

    hold_leases(fe, &s);
    before = rss_kib(fe);
    for (int i = 0; i < READERS; i++)
        readers[i] = raw_open(fe);
    do { /* again, if Redis did not answer in time, for the machine stood still */
        for (int i = 0; i < READERS; i++)
            raw_text(readers[i],
                     "POST /v1/sessions/%s/keep-alive HTTP/1.1\r\nHost: x\r\n%s\r\n"
                     "Content-Length: 0\r\n\r\n",
                     s.id, s.header);
        check_growth("keep-alives that nobody reads", before, peak_kib(fe, 5000));
        last = raw_reply(readers[READERS - 1], SOON_MS);
    } while (last->status == 503 && ++times < TIMES_MAX);
    assert_true(has_no_leases(last));
    for (int i = 0; i < READERS; i++)
        raw_reset(readers[i]);
    wait_until(leases_len(keep_alive(fe, &s, NULL)) == LOCKS, SOON_MS);
}

/* Looks take turns: all of many are answered, also when Redis stands still meanwhile, and none
 * of them waits for longer than one that Redis does not answer. */
static void test_many_looks(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    struct call *calls[60];

    expect_status(lock_put(fe, "looked-at", token_new(w), "ttl_ms=600000"), 201);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        calls[i] = CALL(fe, .method = "GET", .path = "/v1/locks/looked-at");
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        expect_bool(call_await(calls[i], SOON_MS), "locked", true);
    redis_freeze(redis);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        calls[i] = CALL(fe, .method = "GET", .path = "/v1/locks/looked-at");
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        expect_problem(call_await(calls[i], SOON_MS), 503, "redis-unavailable");
    redis_thaw(redis);
    wait_until(front_ready(fe), SOON_MS);
    expect_bool(lock_look(fe, "looked-at"), "locked", true);
}

/* Clients that connect and say nothing: new ones need not wait for their end, and a client that
 * keeps its connection for the next request keeps it. */
static void test_silent_connections(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--max-connections", "64",
                                   NULL);
    struct raw *good = raw_open(fe);

    raw_text(good, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    expect_status(raw_reply(good, SOON_MS), 200);
    for (int i = 0; i < 200; i++)
        raw_open(fe);
    for (int i = 0; i < 3; i++) {
        struct reply *r = http(fe, "GET", "/livez", NULL);

        expect_status(r, 200);
        if (r->done_ms - r->sent_ms > allowed_ms(2500))
            FAIL("a new client waited for %d ms", (int)(r->done_ms - r->sent_ms));
        raw_text(good, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        expect_status(raw_reply(good, SOON_MS), 200);
    }
    assert_true(front_metric(fe, "rlockd_http_cut_off_total", "reason=\"full\"") > 100);
}

/* By metrics, asked on a connection that counts too: when others are not over yet, it is cut.
 */
static bool has_cut_off(struct front *fe)
{
    const struct reply *r = http(fe, "GET", "/metrics", NULL);
    const char *sample = strstr(r->text, "rlockd_http_cut_off_total{reason=\"address\"} ");

    return r->status == 200 && sample != NULL && atoi(strchr(sample, ' ')) >= 1;
}

static void test_connections_of_one_address(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, "--max-connections-per-address",
                                   "5", "--workers", "2", NULL);
    struct raw *raws[3], *more[3];

    wait_until(front_metric(fe, "rlockd_connections", NULL) <= 1, SOON_MS);
    assert_false(has_cut_off(fe));
    /* The two questions before may not be over for a worker that stands still. */
    for (size_t i = 0; i < COUNT_OF(raws); i++) {
        raws[i] = raw_open(fe);
        raw_text(raws[i], "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        expect_status(raw_reply(raws[i], SOON_MS), 200);
    }
    for (size_t i = 0; i < COUNT_OF(more); i++)
        more[i] = raw_open(fe);
    /* Two workers accept them, in any order. */
    wait_until(raw_closed(more[0], 20) || raw_closed(more[1], 20) || raw_closed(more[2], 20),
               SOON_MS);
    for (size_t i = 0; i < COUNT_OF(raws); i++) {
        assert_false(raw_closed(raws[i], 0));
        raw_reset(raws[i]);
        raw_reset(more[i]);
    }
    wait_until(has_cut_off(fe), SOON_MS);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_listings_that_nobody_reads),
        E2E_TEST(test_refused_listing),
        E2E_TEST(test_listings_of_two_callers),
        E2E_TEST(test_descriptions_that_nobody_reads),
        E2E_TEST(test_looks_at_a_large_session),
        E2E_TEST(test_keep_alives_that_nobody_reads),
        E2E_TEST(test_many_looks),
        E2E_TEST(test_silent_connections),
        E2E_TEST(test_connections_of_one_address),
    };
    struct e2e_plan plan = {.name = "limits", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
