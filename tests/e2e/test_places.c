/* Connections run short: which of them are closed, and which clients keep theirs. */
#include "harness.h"

#include <unistd.h>

enum {
    SOON_MS = 5000,
    NEW_CLIENT_MS = 2500,
    NEW_CLIENTS = 6,
    CROWD = 400, /* twice as many as there is room for */
    CROWD_ROUNDS = 4,
    GOOD = 30,
    SMALL_BUFFER = 4096,
    PIPELINED = 60
};

#define GET_LIVEZ "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
#define GET_LONG "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n"

static struct front *small_front(struct world *w)
{
    return front_start(w, "--redis", w->redis->url, "--max-connections", "200", NULL);
}

static void ask(struct raw *raw)
{
    raw_text(raw, GET_LIVEZ);
    expect_status(raw_reply(raw, SOON_MS), 200);
}

static void open_good(struct front *fe, struct raw **good)
{
    for (int i = 0; i < GOOD; i++) {
        good[i] = raw_open(fe);
        ask(good[i]);
    }
}

/* New clients find a place soon, and the idle connections of good clients are there still. */
static void expect_good_clients_served(struct front *fe, struct raw **good)
{
    for (int i = 0; i < NEW_CLIENTS; i++) {
        struct reply *r = http(fe, "GET", "/livez", NULL);

        expect_status(r, 200);
        if (r->done_ms - r->sent_ms > patience_ms(NEW_CLIENT_MS))
            FAIL("a new client waited for %d ms", (int)(r->done_ms - r->sent_ms));
    }
    for (int i = 0; i < GOOD; i++)
        ask(good[i]);
}

static double cut_off(struct front *fe, const char *reason)
{
    return front_metric(fe, "rlockd_http_cut_off_total", reason);
}

/* Clients that ask for long answers and read none of them: what they have asked for is not
 * written beyond what the kernel takes, and they lose their places before idle clients. */
static void test_answers_that_nobody_reads(struct world *w)
{
    static char requests[PIPELINED * sizeof(GET_LONG)];
    static struct raw *crowd[CROWD];
    struct front *fe = small_front(w);
    struct raw *good[GOOD];

    for (int i = 0; i < PIPELINED; i++)
        strcat(requests, GET_LONG);
    open_good(fe, good);
    for (int round = 0; round < CROWD_ROUNDS; round++) {
        for (int i = round; i < CROWD; i += CROWD_ROUNDS) {
            crowd[i] = raw_open_as(fe, NULL, SMALL_BUFFER);
            raw_text(crowd[i], "%s", requests);
        }
        expect_good_clients_served(fe, good);
    }
    assert_true(cut_off(fe, "reason=\"full\"") > 100);
    assert_true(cut_off(fe, "reason=\"slow-reader\"") == 0);
}

/* The same with one answer each, which the kernel takes: to the server they are idle. */
static void test_single_answers_that_nobody_reads(struct world *w)
{
    struct front *fe = small_front(w);
    struct raw *good[GOOD];

    open_good(fe, good);
    for (int i = 0; i < CROWD; i++)
        raw_text(raw_open_as(fe, NULL, SMALL_BUFFER), GET_LONG);
    expect_good_clients_served(fe, good);
}

static void test_requests_without_end(struct world *w)
{
    struct front *fe = small_front(w);
    struct raw *good[GOOD];

    open_good(fe, good);
    for (int i = 0; i < CROWD; i++)
        raw_text(raw_open(fe), "POST /v1/sessions HTTP/1.1\r\nHost: x\r\n"
                               "Content-Length: 10\r\n\r\n{");
    expect_good_clients_served(fe, good);
    assert_true(cut_off(fe, "reason=\"slow-sender\"") == 0);
}

/* An address that keeps many connections for itself loses some of them; the others' are older,
 * and stay. */
static void test_idle_connections_of_one_address(struct world *w)
{
    struct front *fe = small_front(w);
    struct raw *good[GOOD];

    open_good(fe, good);
    for (int i = 0; i < CROWD; i++)
        raw_text(raw_open_as(fe, "127.0.0.2", 0), GET_LIVEZ);
    expect_good_clients_served(fe, good);
}

/* A client that sends a part of a request and closes at once has no connection any more: no
 * time limit has to end it. */
static void test_streams_that_end_at_once(struct world *w)
{
    static const char *const parts[] = {
        "GET /li",
        "GET /livez HTTP/1.1\r\nHost:",
        "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{",
        GET_LIVEZ "GET /li",
    };
    struct front *fe = front_start(w, "--redis", w->redis->url, "--max-connections-per-address",
                                   "8", NULL);

    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        struct raw *raw = raw_open(fe);

        raw_text(raw, "%s", parts[i]);
        raw_close(raw);
    }
    wait_until(front_metric(fe, "rlockd_connections", NULL) <= 1, 20000);
    assert_true(cut_off(fe, "reason=\"silent\"") == 0);
    assert_true(cut_off(fe, "reason=\"slow-sender\"") == 0);
    assert_true(cut_off(fe, "reason=\"idle\"") == 0);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_answers_that_nobody_reads),
        E2E_TEST(test_single_answers_that_nobody_reads),
        E2E_TEST(test_requests_without_end),
        E2E_TEST(test_idle_connections_of_one_address),
        E2E_TEST(test_streams_that_end_at_once),
    };
    struct e2e_plan plan = {.name = "places", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
