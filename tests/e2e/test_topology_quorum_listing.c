/* The listing of the sessions of redis-quorum://: each open session once, whichever servers are
 * away or have lost their data. */
#include "harness_session.h"
#include "quorum.h"

enum { LISTED = 40, SOON_MS = 10000 };

struct listing {
    struct front *fe;
    const char *ids[LISTED];
    int seen[LISTED];
    const char *cursor; /* NULL: the last page has been read */
};

/* Asks again where a server goes away in the midst of it. */
static void list_page(struct listing *listing, int limit)
{
    struct world *w = listing->fe->world;
    struct reply *r;
    json_t *session;
    int asked = 0;
    size_t i;

    do {
        r = http(listing->fe, "GET",
                 text(w, "/v1/sessions?limit=%d%s%s", limit,
                      listing->cursor[0] != '\0' ? "&cursor=" : "", listing->cursor),
                 NULL);
        asked++;
        if (r->status == 503)
            nap_ms(50);
    } while (r->status == 503 && asked < 10);
    expect_status(r, 200);
    expect_true(r, json_array_size(reply_get(r, "sessions")) <= (size_t)limit);
    json_array_foreach(reply_get(r, "sessions"), i, session) {
        const char *id = json_string_value(json_object_get(session, "session_id"));
        for (int k = 0; k < LISTED; k++)
            listing->seen[k] += listing->ids[k] != NULL && strcmp(listing->ids[k], id) == 0;
    }
    listing->cursor = reply_str(r, "next_cursor");
}

static void list_all(struct listing *listing, int limit)
{
    memset(listing->seen, 0, sizeof(listing->seen));
    listing->cursor = "";
    while (listing->cursor != NULL)
        list_page(listing, limit);
}

static int listed_times(const struct listing *listing, int times)
{
    int count = 0;

    for (int i = 0; i < LISTED; i++)
        count += listing->seen[i] == times;
    return count;
}

static bool lists_each_once(struct listing *listing)
{
    list_all(listing, 7);
    return listed_times(listing, 1) == LISTED;
}

static json_int_t indexed(struct redis *server)
{
    json_int_t count = 0;

    for (int i = 0; i < 16; i++)
        count += redis_int(server, "ZCARD rlockd:sessions:{%x}", i);
    return count;
}

/* The watchdog of the front end visits no session while the test runs. */
static struct listing listing_start(struct quorum *q, struct front *fe)
{
    struct listing listing = {.fe = fe, .cursor = ""};

    for (int i = 0; i < LISTED; i++)
        listing.ids[i] = session_new(fe, "ttl_ms=60000&name=listed").id;
    for (int i = 0; i < q->count; i++)
        wait_until(indexed(q->server[i]) == LISTED, SOON_MS);
    return listing;
}

static json_t *row_of(const struct reply *page, const char *id)
{
    json_t *row;
    size_t i;

    json_array_foreach(reply_get(page, "sessions"), i, row) {
        if (strcmp(json_string_value(json_object_get(row, "session_id")), id) == 0)
            return row;
    }
    FAIL("session %s is not listed", id);
    return NULL;
}

static void test_listing(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, "--watchdog-timeout-ms", "100000", NULL);
    struct listing listing = listing_start(q, a.fe);
    struct session s = session_new(a.fe, "ttl_ms=60000&name=host/1");

    assert_true(lists_each_once(&listing));
    session_hold(a.fe, &s, "jobs", NULL);
    struct reply *r = http(a.fe, "GET", "/v1/sessions?limit=1000", NULL);
    expect_status(r, 200);
    assert_int_equal(json_array_size(reply_get(r, "sessions")), LISTED + 1);
    json_t *row = row_of(r, s.id);
    assert_string_equal(json_string_value(json_object_get(row, "name")), "host/1");
    assert_int_equal(json_integer_value(json_object_get(row, "ttl_ms")), 60000);
    assert_int_equal(json_integer_value(json_object_get(row, "lease_count")), 1);
    /* Less the drift. */
    assert_in_range(json_integer_value(json_object_get(row, "remaining_ms")), 1, 60000 - 602);
    expect_int(session_end(a.fe, &s), "released", 1);
    listing.ids[0] = s.id;
    list_all(&listing, 1000);
    assert_int_equal(listing.seen[0], 0);
    expect_problem(http(a.fe, "GET", "/v1/sessions?cursor=48.0.", NULL), 400,
                   "malformed-request");
}

/* Without each of the servers, and with each of them emptied. */
static void test_listing_with_a_server_away(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, "--watchdog-timeout-ms", "100000", NULL);
    struct listing listing = listing_start(q, a.fe);

    for (int i = 0; i < 3; i++) {
        proxy_set(a.proxy[i], PROXY_RESET);
        assert_true(lists_each_once(&listing));
        proxy_set(a.proxy[i], PROXY_PASS);
        wait_until(quorum_all_up(a.fe), SOON_MS);
        assert_true(lists_each_once(&listing));
    }
    quorum_empty(q->server[0]);
    wait_until(strcmp(quorum_state(a.fe, 0), "quarantine") == 0, SOON_MS);
    assert_int_equal(indexed(q->server[0]), 0);
    assert_true(lists_each_once(&listing));
    proxy_set(a.proxy[0], PROXY_RESET);
    proxy_set(a.proxy[1], PROXY_RESET);
    wait_until(http(a.fe, "GET", "/readyz", NULL)->status == 503, SOON_MS);
    struct reply *r = http(a.fe, "GET", "/v1/sessions", NULL);
    expect_problem(r, 503, "redis-unavailable");
    expect_str(r, "reason", "quorum");
    expect_problem(http(a.fe, "GET", "/v1/locks", NULL), 503, "redis-unavailable");
}

/* The server whose index is read dies between two pages: none is missed, and those that follow
 * in other partitions come once. */
static void test_a_cursor_survives_a_server(struct world *w)
{
    struct quorum *q = quorum_start(w, 5);
    struct quorum_front a = quorum_front(q, "--watchdog-timeout-ms", "100000", NULL);
    struct listing listing = listing_start(q, a.fe);

    for (int away = 0; away < 2; away++) {
        memset(listing.seen, 0, sizeof(listing.seen));
        listing.cursor = "";
        for (int i = 0; i < 5; i++)
            list_page(&listing, 3);
        redis_kill(q->server[away]);
        while (listing.cursor != NULL)
            list_page(&listing, 3);
        assert_int_equal(listed_times(&listing, 0), 0);
        assert_int_equal(listed_times(&listing, 1) + listed_times(&listing, 2), LISTED);
        assert_true(lists_each_once(&listing));
    }
}

/* The watchdog gives the index back to an emptied server. */
static void test_listing_after_an_emptied_server(struct world *w)
{
    struct quorum *q = quorum_start(w, 3);
    struct quorum_front a = quorum_front(q, WATCHDOG_FLAGS, NULL);
    struct listing listing = listing_start(q, a.fe);

    quorum_empty(q->server[0]);
    wait_until(indexed(q->server[0]) == LISTED, SOON_MS);
    wait_until(lists_each_once(&listing), SOON_MS);
    redis_kill(q->server[1]);
    wait_until(lists_each_once(&listing), SOON_MS);
}

static const struct e2e_test tests[] = {
    E2E_TEST(test_listing),
    E2E_TEST(test_listing_with_a_server_away),
    E2E_TEST(test_a_cursor_survives_a_server),
    E2E_TEST(test_listing_after_an_emptied_server),
};

int main(void)
{
    static const struct e2e_plan plan = {
        .name = "quorum_listing", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
