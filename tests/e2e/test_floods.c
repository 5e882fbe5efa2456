/* Many clients that ask as fast as they are answered take nothing from others: no request of a
 * guest among them fails or waits for long, and no lease of a live session is lost. */
#include "flood.h"

#include "harness_session.h"
#include "quorum.h"

enum {
    STRANGERS = 500,
    LEASES = 200,
    RENEWED_MS = 3000,
    LATE_PARTS = 2,
    FLOOD_MS = 24000,
    ANSWERS = 20,
    MEMBERS = 1500,
    BODY_SIZE = 20 * 1024,
    BODY_MAX = 16 * 1024, /* as rlockd takes it */
    SOON_MS = 5000
};

/* A guest waits for so many answers to each stranger at most. */
#define ROUNDS_MAX 2.0

#define API_TOKEN "rlt-guest-0123456789abcdefghijklmnopq"
/* Longer than a flood; in a quorum at most its quarantine. */
#define SESSION_TTL_MS "600000"
#define AUTHORIZATION "Authorization: Bearer " API_TOKEN "\r\n"

/* The log of a flood is long: it is not searched for these tokens. */
static const char *quick_token(struct world *w)
{
    char token[UUID_SIZE];

    uuid_make(token);
    return text(w, "%s", token);
}

/* ---- guests ---- */

/* Acquires a lock, releases it, and again. */
static const char *cycle_request(struct world *w, struct flood_guest *guest, size_t n,
                                 int *status)
{
    bool acquires = n % 2 == 0;

    if (acquires)
        guest->token = quick_token(w);
    *status = acquires ? 201 : 200;
    return text(w,
                "%s /v1/locks/of-a-guest%s HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION
                "Lease-Token: %s\r\n\r\n",
                acquires ? "PUT" : "DELETE", acquires ? "?ttl_ms=60000" : "", guest->token);
}

static const char *keep_alive_request(struct world *w, struct flood_guest *guest, size_t n,
                                      int *status)
{
    const struct session *session = guest->arg;

    (void)n;
    *status = 200;
    return text(w,
                "POST /v1/sessions/%s/keep-alive HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION
                "%s\r\nContent-Length: 0\r\n\r\n",
                session->id, session->header);
}

/* ---- what is the same of every flood ---- */

struct stage {
    struct world *world;
    struct front *fe;
    struct raw *raw; /* for what comes before the flood */
    struct session with_leases, alone;
    double renewals_before; /* the flood */
};

static struct session open_session(struct stage *stage)
{
    struct world *w = stage->world;
    struct session session = {.token = quick_token(w)};
    session.header = text(w, "Session-Token: %s", session.token);
    raw_text(stage->raw,
             "POST /v1/sessions?ttl_ms=" SESSION_TTL_MS " HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION
             "%s\r\nContent-Length: 0\r\n\r\n",
             session.header);
    struct reply *r = raw_reply(stage->raw, SOON_MS);

    expect_status(r, 201);
    session.id = reply_str(r, "session_id");
    return session;
}

static void acquire_lease(struct stage *stage, int number)
{
    raw_text(stage->raw,
             "PUT /v1/locks/renewed-%d HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION
             "%s\r\nLease-Token: %s\r\n\r\n",
             number, stage->with_leases.header, quick_token(stage->world));
    expect_status(raw_reply(stage->raw, SOON_MS), 201);
}

/* A front end, and a session whose leases the watchdog renews. */
static struct stage set_up_with(struct world *w, const char *url, const char *quarantine_ms)
{
    struct stage stage = {.world = w};
    const char *lines = "guest {" API_TOKEN "} read=* lock=* operate=*\n";

    stage.fe = front_start(w, "--redis", url, "--api-tokens", tokens_write(w, "tokens", lines),
                           "--watchdog-timeout-ms", text(w, "%d", (int)patience_ms(RENEWED_MS)),
                           "--quarantine-ms", quarantine_ms, NULL);
    stage.raw = raw_open(stage.fe);
    stage.with_leases = open_session(&stage);
    stage.alone = open_session(&stage);
    for (int i = 0; i < LEASES; i++)
        acquire_lease(&stage, i);
    return stage;
}

static struct stage set_up(struct world *w)
{
    return set_up_with(w, redis_start(w, NULL)->url, "0");
}

/* Without proxies, which would be a part of the flood. */
static struct stage set_up_quorum(struct world *w)
{
    enum { SERVERS = 3 };

    skip_on_cluster(w);
    const struct quorum *q = quorum_start(w, SERVERS);
    const char *url = redis_is_tls() ? "rediss-quorum://" : "redis-quorum://";
    for (int i = 0; i < SERVERS; i++)
        url = text(w, "%s%s%s:%d", url, i > 0 ? "," : "", redis_address(w),
                   redis_is_tls() ? q->server[i]->tls_port : q->server[i]->port);
    struct stage stage = set_up_with(w, url, SESSION_TTL_MS);
    wait_until(quorum_all_up(stage.fe), SOON_MS);
    return stage;
}

/* The watchdog renews a lease when a third of its time is over: a machine that was late by more
 * than the rest lets leases end. */
static void check_leases(struct stage *stage)
{
    struct world *w = stage->world;
    struct reply *r = HTTP(stage->fe, .method = "POST",
                           .path = text(w, "/v1/sessions/%s/keep-alive", stage->with_leases.id),
                           .headers = {stage->with_leases.header, bearer(w, API_TOKEN)});

    expect_status(r, 200);
    size_t held = json_array_size(json_object_get(r->json, "leases"));
    if (held == LEASES)
        return;
    print_message("%zu leases are held, the machine late by %d ms\n", held, (int)late_ms());
    assert_true(late_ms() > patience_ms(RENEWED_MS / LATE_PARTS));
}

static void check_rounds(const struct flood *flood, struct flood_guest *guest)
{
    double rounds = flood_rounds(flood, guest);

    print_message("%s: %zu answers, %.2f rounds\n", guest->name, guest->count, rounds);
    if (rounds > ROUNDS_MAX)
        FAIL("%s waits for %.2f rounds of all strangers", guest->name, rounds);
}

static double renewals(const struct stage *stage)
{
    return front_metric(stage->fe, "rlockd_watchdog_renewals_total", NULL);
}

/* Each lease was renewed in the flood; those that are not are lost, for which the flood would
 * go on in vain. */
static bool are_renewed(void *arg)
{
    const struct stage *stage = arg;

    return renewals(stage) >= stage->renewals_before + LEASES;
}

/* `status`: that strangers get, at least once. */
static void flood_with(struct stage *stage, const char *const *requests, size_t count,
                       int status)
{
    struct flood_guest cycler = {.name = "a client with locks", .request = cycle_request};
    struct flood_guest keeper = {
        .name = "a client with a session", .request = keep_alive_request, .arg = &stage->alone};
    struct flood_guest *guests[] = {&cycler, &keeper};
    struct flood *flood = flood_open(stage->fe, STRANGERS, requests, count);

    stage->renewals_before = renewals(stage);
    flood_run(flood, guests, COUNT_OF(guests), ANSWERS, are_renewed, stage, FLOOD_MS);
    flood_print(flood);
    if (flood_answers(flood, status) == 0)
        FAIL("no stranger was answered %d", status);
    check_leases(stage);
    check_rounds(flood, &cycler);
    check_rounds(flood, &keeper);
}

static void flood_alike(struct world *w, const char *request, int status)
{
    struct stage stage = set_up(w);

    flood_with(&stage, &request, 1, status);
}

/* `line`: method, path, and headers but the last line's end. */
static const char *request_with_body(struct world *w, const char *line, const char *body)
{
    return text(w,
                "%s\r\nHost: x\r\n" AUTHORIZATION
                "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                line, strlen(body), body);
}

static void flood_with_body(struct world *w, const char *body)
{
    flood_alike(w,
                request_with_body(w,
                                  "PUT /v1/locks/a HTTP/1.1\r\n"
                                  "Lease-Token: 6f1cf8f6-5c3a-4c52-9c6e-4a2f6ed5d5f1",
                                  body),
                400);
}

/* ---- the floods ---- */

static void test_flood_of_livez(struct world *w)
{
    flood_alike(w, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 200);
}

static void test_flood_of_metrics(struct world *w)
{
    flood_alike(w, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200);
}

static void test_flood_of_unknown_tokens(struct world *w)
{
    flood_alike(w,
                "GET /v1/locks/a HTTP/1.1\r\nHost: x\r\n"
                "Authorization: Bearer rlt-nobody-0123456789abcdefghijklmnop\r\n\r\n",
                401);
}

static void test_flood_of_unknown_members(struct world *w)
{
    static char body[BODY_SIZE];
    size_t len = 0;

    for (int i = 0; i < MEMBERS; i++)
        len += (size_t)snprintf(body + len, sizeof(body) - len, "%c\"m%04d\":1",
                                i == 0 ? '{' : ',', i);
    snprintf(body + len, sizeof(body) - len, "}");
    flood_with_body(w, body);
}

/* `start`, the begin of an object whose last member is a text, and as many escapes as a body
 * may have: of all bodies these take longest to read. */
static const char *body_of_escapes(const char *start)
{
    static char body[BODY_MAX];
    size_t len = (size_t)snprintf(body, sizeof(body), "%s", start);

    while (len + strlen("\\u00e4") + strlen("\"}") < sizeof(body))
        len += (size_t)snprintf(body + len, sizeof(body) - len, "\\u00e4");
    snprintf(body + len, sizeof(body) - len, "\"}");
    return body;
}

static void test_flood_of_escapes(struct world *w)
{
    flood_with_body(w, body_of_escapes("{\"note\":\""));
}

/* Each stranger asks with a token of its own for a lock of its own, or all for one lock. */
static void flood_locks(struct stage *stage, size_t locks, int status)
{
    static const char *requests[STRANGERS];
    struct world *w = stage->world;

    for (size_t i = 0; i < STRANGERS; i++)
        requests[i] = text(w,
                           "PUT /v1/locks/of-a-stranger-%zu?ttl_ms=60000 HTTP/1.1\r\n"
                           "Host: x\r\n" AUTHORIZATION "Lease-Token: %s\r\n\r\n",
                           i % locks, quick_token(w));
    flood_with(stage, requests, STRANGERS, status);
}

static void test_flood_of_locks(struct world *w)
{
    struct stage stage = set_up(w);

    flood_locks(&stage, STRANGERS, 200);
}

/* Each repetition of a held lease is two rounds of questions to all servers. */
static void test_flood_of_locks_of_a_quorum(struct world *w)
{
    struct stage stage = set_up_quorum(w);

    flood_locks(&stage, STRANGERS, 200);
}

/* One stranger has the lock, the others are refused. */
static void test_flood_of_one_lock_of_a_quorum(struct world *w)
{
    struct stage stage = set_up_quorum(w);

    flood_locks(&stage, 1, 423);
}

static void test_flood_of_keep_alives(struct world *w)
{
    static const char *requests[STRANGERS];
    struct stage stage = set_up(w);

    for (size_t i = 0; i < STRANGERS; i++) {
        struct session session = open_session(&stage);
        struct flood_guest stranger = {.arg = &session};
        int status;

        requests[i] = keep_alive_request(w, &stranger, 0, &status);
    }
    flood_with(&stage, requests, STRANGERS, 200);
}

/* A caller has one listing under way: most of these are refused. */
static void test_flood_of_listings(struct world *w)
{
    flood_alike(w, "GET /v1/locks HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION "\r\n", 200);
}

static void test_flood_of_looks_at_a_session(struct world *w)
{
    struct stage stage = set_up(w);
    const char *request = text(
        w, "GET /v1/sessions/%s HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION "\r\n",
        stage.with_leases.id);

    flood_with(&stage, &request, 1, 200);
}

/* What a browser with the page asks for. */
static void test_flood_of_the_page(struct world *w)
{
    static const char *const requests[] = {
        "GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n",
        "GET /page/page.js HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /page/views.js HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /page/page.css HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/me HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION "\r\n"};
    struct stage stage = set_up(w);

    flood_with(&stage, requests, COUNT_OF(requests), 200);
}

static void test_flood_of_the_longest_holds(struct world *w)
{
    flood_alike(w, "GET /v1/locks?order=held HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION "\r\n",
                200);
}

static void test_flood_of_terraforms(struct world *w)
{
    static const char *requests[STRANGERS];
    struct stage stage = set_up(w);
    const char *info = body_of_escapes("{\"ID\":\"of-a-stranger\",\"Info\":\"");

    for (size_t i = 0; i < STRANGERS; i++)
        requests[i] = request_with_body(w, text(w, "LOCK /terraform/state-%zu HTTP/1.1", i),
                                        info);
    flood_with(&stage, requests, STRANGERS, 200);
}

/* The machines of a group with one slot. */
static void test_flood_of_machines(struct world *w)
{
    static const char *requests[STRANGERS];
    struct stage stage = set_up(w);

    for (size_t i = 0; i < STRANGERS; i++)
        requests[i] = request_with_body(
            w, "POST /fleetlock/v1/pre-reboot HTTP/1.1\r\nfleet-lock-protocol: true",
            text(w, "{\"client_params\":{\"id\":\"%zu\",\"group\":\"workers\"}}", i));
    flood_with(&stage, requests, STRANGERS, 423);
}

/* One path, which the first request locks; the listings are refused mostly. */
static void test_flood_of_git_lfs(struct world *w)
{
    struct stage stage = set_up(w);
    const char *requests[] = {
        request_with_body(w, "POST /lfs/art/locks HTTP/1.1", "{\"path\":\"a\"}"),
        request_with_body(w, "POST /lfs/art/locks/verify HTTP/1.1", "{}"),
        request_with_body(w, "POST /lfs/art/locks/Yg/unlock HTTP/1.1", "{\"force\":true}"),
        "GET /lfs/art/locks HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION "\r\n"};

    flood_with(&stage, requests, COUNT_OF(requests), 409);
}

static void test_flood_of_forced_ends(struct world *w)
{
    static const char *requests[STRANGERS];
    struct stage stage = set_up(w);

    for (size_t i = 0; i < STRANGERS; i++)
        requests[i] = text(
            w,
            "POST /v1/sessions/%s/force-end HTTP/1.1\r\nHost: x\r\n" AUTHORIZATION
            "Content-Length: 0\r\n\r\n",
            open_session(&stage).id);
    flood_with(&stage, requests, STRANGERS, 200);
}

/* Of locks that strangers hold, and of free ones: each is three rounds of questions at most. */
static void test_flood_of_forced_locks_of_a_quorum(struct world *w)
{
    static const char *requests[STRANGERS];
    struct stage stage = set_up_quorum(w);

    for (size_t i = 0; i < STRANGERS; i++)
        requests[i] = i % 2 == 0
                          ? text(w,
                                 "PUT /v1/locks/of-strangers-%zu?ttl_ms=60000 HTTP/1.1\r\n"
                                 "Host: x\r\n" AUTHORIZATION "Lease-Token: %s\r\n\r\n",
                                 i / 20, quick_token(w))
                          : text(w,
                                 "POST /v1/locks/of-strangers-%zu/force-unlock HTTP/1.1\r\n"
                                 "Host: x\r\n" AUTHORIZATION "Content-Length: 0\r\n\r\n",
                                 i / 20);
    flood_with(&stage, requests, STRANGERS, 200);
}

static void test_flood_of_semaphores_made_anew(struct world *w)
{
    static const char *const lines[] = {"PUT /v1/semaphores/%zu?permits=2 HTTP/1.1\r\n",
                                        "DELETE /v1/semaphores/%zu HTTP/1.1\r\n"};
    static const char *requests[STRANGERS];
    struct stage stage = set_up(w);

    for (size_t i = 0; i < STRANGERS; i++)
        requests[i] = text(w, "%sHost: x\r\n" AUTHORIZATION "Content-Length: 0\r\n\r\n",
                           text(w, lines[i % 2], i / 2));
    flood_with(&stage, requests, STRANGERS, 200);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_flood_of_livez),
        E2E_TEST(test_flood_of_metrics),
        E2E_TEST(test_flood_of_unknown_tokens),
        E2E_TEST(test_flood_of_unknown_members),
        E2E_TEST(test_flood_of_escapes),
        E2E_TEST(test_flood_of_locks),
        E2E_TEST(test_flood_of_locks_of_a_quorum),
        E2E_TEST(test_flood_of_one_lock_of_a_quorum),
        E2E_TEST(test_flood_of_keep_alives),
        E2E_TEST(test_flood_of_listings),
        E2E_TEST(test_flood_of_looks_at_a_session),
        E2E_TEST(test_flood_of_the_page),
        E2E_TEST(test_flood_of_the_longest_holds),
        E2E_TEST(test_flood_of_terraforms),
        E2E_TEST(test_flood_of_machines),
        E2E_TEST(test_flood_of_git_lfs),
        E2E_TEST(test_flood_of_forced_ends),
        E2E_TEST(test_flood_of_forced_locks_of_a_quorum),
        E2E_TEST(test_flood_of_semaphores_made_anew),
    };
    struct e2e_plan plan = {.name = "floods", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
