/* GET /v1/locks and GET /v1/semaphores: what is held, and what can be, page by page. */
#include "harness.h"

#define PART_TOKEN "part-secret-eeeeeeee"
enum { PAGES_MAX = 5000 };

/* Every entry of every page, and how many pages it took. */
struct listing {
    const char *member; /* of an entry: its name; with an s: of a page */
    json_t *locks;
    int pages_len, longest_page_len;
};

static void undo_json(void *thing)
{
    json_decref(thing);
}

/* A lock may be listed twice while the keys of Redis move; that is no second lock. */
static void add_page(const char *member, json_t *locks, json_t *page)
{
    json_t *entry, *known;
    size_t i, k;

    json_array_foreach(page, i, entry) {
        bool is_new = true;

        json_array_foreach(locks, k, known)
            is_new = is_new && !json_equal(json_object_get(known, member),
                                           json_object_get(entry, member));
        if (is_new)
            json_array_append(locks, entry);
    }
}

static struct listing list_of(struct world *w, const char *member, const char *query)
{
    struct listing all = {.member = member, .locks = json_array()};
    const char *entries = text(w, "%ss", member), *cursor = NULL;

    world_defer(w, undo_json, all.locks);
    do {
        const char *path = cursor == NULL ? text(w, "/v1/%s?%s", entries, query)
                                          : text(w, "/v1/%s?%s&cursor=%s", entries, query,
                                                 url_encode(w, cursor));
        struct reply *r = http(w->a, "GET", path, NULL);
        int len = (int)json_array_size(reply_get(r, entries));

        expect_status(r, 200);
        expect_true(r, json_is_array(reply_get(r, entries)));
        expect_true(r, json_is_null(reply_get(r, "next_cursor")) ||
                           json_is_string(reply_get(r, "next_cursor")));
        add_page(member, all.locks, reply_get(r, entries));
        all.longest_page_len = len > all.longest_page_len ? len : all.longest_page_len;
        cursor = reply_str(r, "next_cursor");
    } while (++all.pages_len < PAGES_MAX && cursor != NULL);
    assert_true(all.pages_len < PAGES_MAX);
    return all;
}

static struct listing list_all(struct world *w, const char *query)
{
    return list_of(w, "lock", query);
}

static json_t *listed(const struct listing *all, const char *lock)
{
    json_t *entry, *found = NULL;
    size_t i;

    json_array_foreach(all->locks, i, entry) {
        if (strcmp(json_string_value(json_object_get(entry, all->member)), lock) != 0)
            continue;
        assert_null(found);
        found = entry;
    }
    return found;
}

static void test_lists_what_is_held(struct world *w)
{
    struct reply *held = lock_put(w->a, "held/1", token_new(w), "ttl_ms=20000&note=n1");
    struct listing all;
    json_t *entry, *holder;

    expect_status(held, 201);
    expect_status(lock_put(w->a, "held/2", token_new(w), NULL), 201);
    assert_true(redisson_lock(w->redis, "held/java", JAVA_HOLDER, 20000));
    all = list_all(w, "prefix=held/");
    assert_int_equal(json_array_size(all.locks), 3);

    entry = listed(&all, "held/1");
    holder = json_array_get(json_object_get(entry, "holders"), 0);
    assert_string_equal(json_string_value(json_object_get(entry, "kind")), "lock");
    assert_string_equal(json_string_value(json_object_get(holder, "lease_id")),
                        reply_str(held, "lease_id"));
    assert_int_equal(json_integer_value(json_object_get(entry, "fencing_token")),
                     reply_int(held, "fencing_token"));
    assert_in_range(json_integer_value(json_object_get(entry, "remaining_ms")), 1, 20000);

    entry = listed(&all, "held/java");
    holder = json_array_get(json_object_get(entry, "holders"), 0);
    assert_string_equal(json_string_value(json_object_get(holder, "redisson_holder")),
                        JAVA_HOLDER);
    assert_null(json_object_get(entry, "fencing_token"));
    assert_non_null(listed(&all, "held/2"));
}

static void test_forgets_what_was_released(struct world *w)
{
    const char *token = token_new(w);
    struct listing all;

    expect_status(lock_put(w->a, "gone/1", token, NULL), 201);
    all = list_all(w, "prefix=gone/");
    assert_int_equal(json_array_size(all.locks), 1);
    expect_status(lock_release(w->a, "gone/1", token), 200);
    all = list_all(w, "prefix=gone/");
    assert_int_equal(json_array_size(all.locks), 0);
}

static void test_ignores_what_is_no_lock(struct world *w)
{
    struct listing all;

    expect_status(lock_put(w->a, "mixed/lock", token_new(w), NULL), 201);
    redis_ok(w->redis, "SET mixed/string 5");
    redis_ok(w->redis, "RPUSH mixed/list x");
    redis_ok(w->redis, "ZADD mixed/zset 1 x");
    redis_ok(w->redis, "HSET mixed/map colour red shape round");
    assert_true(redisson_lock(w->redis, "mixed/latch", JAVA_HOLDER, 20000));
    assert_true(redisson_unlock(w->redis, "mixed/latch", JAVA_HOLDER));
    all = list_all(w, "prefix=mixed/");
    assert_int_equal(json_array_size(all.locks), 1);
    assert_non_null(listed(&all, "mixed/lock"));

    /* Neither the keys of our own nor those beside a Java lock are locks. */
    all = list_all(w, "prefix=rlockd:");
    assert_int_equal(json_array_size(all.locks), 0);
    all = list_all(w, "prefix=redisson_");
    assert_int_equal(json_array_size(all.locks), 0);
    redis_ok(w->redis, "DEL mixed/string");
    redis_ok(w->redis, "DEL mixed/list");
    redis_ok(w->redis, "DEL mixed/zset");
    redis_ok(w->redis, "DEL mixed/map");
}

static void expect_semaphore(const struct listing *all, const char *name, int available,
                             int held)
{
    json_t *entry = listed(all, name);

    assert_non_null(entry);
    assert_int_equal(json_integer_value(json_object_get(entry, "available")), available);
    assert_int_equal(json_integer_value(json_object_get(entry, "holder_count")), held);
    assert_int_equal(json_integer_value(json_object_get(entry, "waiter_count")), 0);
}

static void test_lists_semaphores_and_latches(struct world *w)
{
    struct listing all;

    expect_status(http(w->a, "PUT", "/v1/semaphores/list%2Fplain?permits=3", NULL), 201);
    expect_status(http(w->a, "PUT", "/v1/latches/list%2Flatch?count=2", NULL), 201);
    expect_status(http(w->a, "PUT", "/v1/permit-semaphores/list%2Fpermits?permits=4", NULL),
                  201);
    expect_status(HTTP(w->a, .method = "PUT",
                       .path = "/v1/permit-semaphores/list%2Fpermits/permit?ttl_ms=60000",
                       .token = token_new(w)),
                  201);
    expect_status(lock_put(w->a, "list/lock", token_new(w), NULL), 201);
    redis_ok(w->redis, "SET list/text five");
    redis_ok(w->redis, "SET {list/rw}:u:1:rwlock_timeout:1 1");
    all = list_of(w, "semaphore", "prefix=list/");
    assert_int_equal(json_array_size(all.locks), 3);
    expect_semaphore(&all, "list/plain", 3, 0);
    expect_semaphore(&all, "list/latch", 2, 0);
    expect_semaphore(&all, "list/permits", 3, 1);
    /* Page by page, without keys that are others': fencing counters, records, reads. */
    all = list_of(w, "semaphore", "limit=1");
    assert_int_equal(all.longest_page_len, 1);
    expect_semaphore(&all, "list/plain", 3, 0);
    assert_null(listed(&all, "{list/rw}:u:1:rwlock_timeout:1"));
    for (size_t i = 0; i < json_array_size(all.locks); i++) {
        const char *name = json_string_value(
            json_object_get(json_array_get(all.locks, i), "semaphore"));
        assert_true(strncmp(name, "redisson_", 9) != 0 && strncmp(name, "rlockd:", 7) != 0);
    }
    expect_problem(http(w->a, "GET", "/v1/semaphores?order=held", NULL), 400,
                   "malformed-request");
    expect_problem(http(w->a, "GET", "/v1/semaphores?cursor=x", NULL), 400,
                   "malformed-request");
    redis_ok(w->redis, "DEL list/text");
    redis_ok(w->redis, "DEL {list/rw}:u:1:rwlock_timeout:1");
}

static void test_semaphores_of_a_caller(struct world *w)
{
    struct front *fe = front_start(
        w, "--redis", w->redis->url, "--api-tokens",
        tokens_write(w, "tokens", "part {" PART_TOKEN "} read=list/\n"), NULL);
    const char *header = bearer(w, PART_TOKEN);

    expect_problem(HTTP(fe, .method = "GET", .path = "/v1/semaphores", .headers = {header}),
                   403, "forbidden");
    expect_status(
        HTTP(fe, .method = "GET", .path = "/v1/semaphores?prefix=list/", .headers = {header}),
        200);
}

static void test_prefix_is_literal(struct world *w)
{
    static const char *const prefixes[] = {"glob*/", "glob?/", "glob[ab]/", "glob\\/",
                                           "glob^-/"};

    expect_status(lock_put(w->a, "glob/plain", token_new(w), NULL), 201);
    expect_status(lock_put(w->a, "globa/plain", token_new(w), NULL), 201);
    for (size_t i = 0; i < COUNT_OF(prefixes); i++) {
        const char *encoded = url_encode(w, prefixes[i]);
        struct listing all = list_all(w, text(w, "prefix=%s", encoded));

        assert_int_equal(json_array_size(all.locks), 0);
        expect_status(lock_put(w->a, text(w, "%sx", prefixes[i]), token_new(w), NULL), 201);
        all = list_all(w, text(w, "prefix=%s", encoded));
        assert_int_equal(json_array_size(all.locks), 1);
    }
}

static void test_pages(struct world *w)
{
    enum { LOCKS = 57, LIMIT = 10 };
    struct listing all;

    for (int i = 0; i < LOCKS; i++)
        expect_status(lock_put(w->a, text(w, "page/%d", i), token_new(w), NULL), 201);
    for (int i = 0; i < 500; i++)
        redis_ok(w->redis, "SET page-other/%d x EX 60", i);
    all = list_all(w, text(w, "prefix=page/&limit=%d", LIMIT));
    for (int i = 0; i < LOCKS; i++)
        assert_non_null(listed(&all, text(w, "page/%d", i)));
    assert_true(all.pages_len >= LOCKS / LIMIT);
    assert_true(all.longest_page_len <= LIMIT);
    all = list_all(w, "limit=1000");
    for (int i = 0; i < LOCKS; i++)
        assert_non_null(listed(&all, text(w, "page/%d", i)));
}

/* Lists in pages of `limit`. Each lock that goes is gone when its page has come. */
static void list_while_locks_go(struct world *w, int limit)
{
    enum { LOCKS = 60 };
    bool is_listed[LOCKS] = {false};
    const char *cursor = "", *lock;
    json_t *entry;
    size_t i;

    for (int lock_number = 0; lock_number < LOCKS; lock_number++) {
        lock_put(w->a, text(w, "%d/stays/%d", limit, lock_number), token_new(w), NULL);
        lock_put(w->a, text(w, "%d/goes/%d", limit, lock_number), token_new(w), NULL);
    }
    do {
        struct reply *r = http(w->a, "GET",
                               text(w, "/v1/locks?prefix=%d/&limit=%d&cursor=%s", limit, limit,
                                    url_encode(w, cursor)),
                               NULL);
        expect_status(r, 200);
        expect_true(r, (int)json_array_size(reply_get(r, "locks")) <= limit);
        json_array_foreach(reply_get(r, "locks"), i, entry) {
            lock = json_string_value(json_object_get(entry, "lock"));
            if (strstr(lock, "stays") != NULL)
                is_listed[atoi(strrchr(lock, '/') + 1)] = true;
            else
                redis_do(w->redis, "DEL %s", lock);
        }
        cursor = reply_str(r, "next_cursor");
    } while (cursor != NULL);
    for (int lock_number = 0; lock_number < LOCKS; lock_number++)
        if (!is_listed[lock_number])
            FAIL("%d/stays/%d is missing", limit, lock_number);
}

static void test_pages_while_locks_go(struct world *w)
{
    list_while_locks_go(w, 1);
    list_while_locks_go(w, 4);
    list_while_locks_go(w, 25);
}

/* The cursor of SCAN that the first page ended at is good for nothing: it goes with the seed of
 * the hashes, which each process of Redis chooses anew. */
static void test_a_restart_between_two_pages(struct world *w)
{
    enum { LOCKS = 2000 };
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    bool is_listed[LOCKS] = {false};
    const char *cursor = "";
    json_t *entry;
    size_t i;
    int pages = 0;

    for (int lock = 0; lock < LOCKS; lock++)
        assert_true(redisson_lock(redis, text(w, "restart/%d", lock), JAVA_HOLDER, 60000));
    do {
        struct reply *r = http(
            fe, "GET",
            text(w, "/v1/locks?prefix=restart/&limit=200&cursor=%s", url_encode(w, cursor)),
            NULL);
        expect_status(r, 200);
        json_array_foreach(reply_get(r, "locks"), i, entry) {
            const char *lock = json_string_value(json_object_get(entry, "lock"));
            is_listed[atoi(lock + strlen("restart/"))] = true;
        }
        cursor = reply_str(r, "next_cursor");
        if (pages++ == 0) {
            redis_kill(redis);
            redis_return(redis);
            wait_until(front_ready(fe), 10000);
        }
    } while (cursor != NULL && pages < PAGES_MAX);
    assert_null(cursor);
    for (int lock = 0; lock < LOCKS; lock++)
        if (!is_listed[lock])
            FAIL("restart/%d is missing", lock);
}

/* The fields of a GET may be a body, too. */
static void test_fields_in_a_body(struct world *w)
{
    struct reply *r;

    expect_status(lock_put(w->a, "body/a", token_new(w), "ttl_ms=60000"), 201);
    expect_status(lock_put(w->a, "body/b", token_new(w), "ttl_ms=60000"), 201);
    r = HTTP(w->a, .method = "GET", .path = "/v1/locks",
             .body = "{\"prefix\": \"body/a\", \"limit\": 1000}");
    expect_status(r, 200);
    expect_str(r, "locks.0.lock", "body/a");
    expect_true(r, json_array_size(reply_get(r, "locks")) == 1);
    r = HTTP(w->a, .method = "GET", .path = "/v1/locks", .body = "{\"nope\": 1}");
    expect_problem(r, 400, "malformed-request");
    expect_detail(r, "there are prefix, limit, cursor");
}

static void test_wrong_queries(struct world *w)
{
    static const struct {
        const char *query, *names;
    } wrong[] = {
        {"limit=0", "limit"},
        {"limit=1001", "limit"},
        {"limit=-1", "limit"},
        {"limit=ten", "limit"},
        {"limit=5&limit=5", "limit"},
        {"cursor=%21", "cursor"},
        {"cursor=not-a-cursor", "cursor"},
        {"cursor=0.0.18446744073709551616", "cursor"},
        {"cursor=0.0.0.4294967296", "cursor"},
        {"cursor=0.0.0.0.4294967296", "cursor"},
        {"cursor=0.0.0.0.0.0", "cursor"},
        {"cursor=0.18446744073709551616.0", "cursor"},
        {"cursor=18446744073709551616.0.0", "cursor"},
        {"cursor=0.0", "cursor"},
        {"cursor=0.0.0.", "cursor"},
        {"order=name", "order"},
        {"prefix=%ff", "prefix"},
        {"prefix=%00", "prefix"},
    };

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct reply *r = http(w->a, "GET", text(w, "/v1/locks?%s", wrong[i].query), NULL);

        expect_problem(r, 400, "malformed-request");
        expect_detail(r, wrong[i].names);
    }
    expect_status(http(w->a, "GET", "/v1/locks", NULL), 200);
    expect_status(http(w->a, "GET", "/v1/locks?limit=1", NULL), 200);
}

static void test_key_prefix_is_cut_off(struct world *w)
{
    struct front *mapped = front_start(w, "--redis", w->redis->url, "--key-prefix",
                                       "shop*:", NULL);
    struct reply *r;

    expect_status(lock_put(mapped, "basket", token_new(w), NULL), 201);
    expect_status(lock_put(w->a, "shopx:basket", token_new(w), NULL), 201);
    r = http(mapped, "GET", "/v1/locks?limit=1000", NULL);
    expect_status(r, 200);
    expect_str(r, "locks.0.lock", "basket");
    expect_absent(r, "locks.1");
    r = http(mapped, "GET", "/v1/locks?prefix=shop&limit=1000", NULL);
    expect_absent(r, "locks.0");
}

/* Without a limit, too. */
static void test_a_page_of_git_lfs(struct world *w)
{
    enum { PAGE_MAX = 1000 };

    for (int i = 0; i <= PAGE_MAX; i++)
        assert_true(redisson_lock(w->redis, text(w, "lfs/pages/%d", i), JAVA_HOLDER, 60000));
    struct reply *r = HTTP(w->a, .method = "GET", .path = "/lfs/pages/locks",
                           .headers = {"Authorization: Basic YW5uYTp4"});
    expect_status(r, 200);
    expect_true(r, json_array_size(reply_get(r, "locks")) <= PAGE_MAX);
    assert_non_null(reply_str(r, "next_cursor"));
}

/* Keys that are no locks are passed over in few commands, and end the page all the same. */
static void test_a_page_among_other_keys(struct world *w)
{
    enum { OTHERS = 12000, SCANS_MAX = 30, PAGES = 2 };
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);
    const char *cursor = "";
    int locks = 0, pages = 0;

    for (int i = 0; i < OTHERS; i++)
        redis_ok(redis, "SET other/%d 1", i);
    expect_status(lock_put(fe, "among-others", token_new(w), NULL), 201);
    long long before = redis_calls(redis, "scan");
    do {
        struct reply *r = http(fe, "GET", text(w, "/v1/locks?cursor=%s", url_encode(w, cursor)),
                               NULL);

        expect_status(r, 200);
        locks += (int)json_array_size(reply_get(r, "locks"));
        cursor = reply_str(r, "next_cursor");
    } while (++pages < PAGES && cursor != NULL);
    assert_null(cursor);
    assert_int_equal(pages, PAGES);
    assert_int_equal(locks, 1);
    assert_in_range(redis_calls(redis, "scan") - before, 1, SCANS_MAX);
}

/* Pages that end in the middle of a large round: the next ones begin behind it. */
static void test_pages_among_other_keys(struct world *w)
{
    enum { OTHERS = 800, PREFIXES = 30, EACH = 6 };
    struct redis *redis = redis_start(w, NULL);
    struct front *fe = front_start(w, "--redis", redis->url, NULL);

    for (int i = 0; i < OTHERS; i++)
        redis_ok(redis, "SET other/%d 1", i);
    for (int i = 0; i < PREFIXES * EACH; i++)
        expect_status(lock_put(fe, text(w, "%d/%d", i / EACH, i % EACH), token_new(w), NULL),
                      201);
    for (int i = 0; i < PREFIXES; i++) {
        const char *cursor = "";
        size_t listed = 0;

        while (cursor != NULL) {
            struct reply *r = http(
                fe, "GET",
                text(w, "/v1/locks?prefix=%d/&limit=4&cursor=%s", i, url_encode(w, cursor)),
                NULL);
            expect_status(r, 200);
            listed += json_array_size(reply_get(r, "locks"));
            cursor = reply_str(r, "next_cursor");
        }
        assert_int_equal(listed, EACH);
    }
}

/* A lock that cannot be looked at is not left out. */
static void test_a_look_that_fails(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct proxy *proxy = proxy_start(redis);

    redis_ok(redis, "ACL SETUSER lister on >pw ~* &* +@all");
    struct front *fe = front_start(w, "--redis", proxy_url(proxy, "lister:pw@", ""), NULL);
    expect_status(lock_put(fe, "unseen", token_new(w), NULL), 201);
    expect_status(http(fe, "GET", "/v1/locks", NULL), 200);
    redis_ok(redis, "ACL SETUSER lister -hgetall -hlen -hrandfield -pttl");
    expect_problem(http(fe, "GET", "/v1/locks", NULL), 503, "redis-unavailable");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_lists_what_is_held),
        E2E_TEST(test_forgets_what_was_released),
        E2E_TEST(test_ignores_what_is_no_lock),
        E2E_TEST(test_lists_semaphores_and_latches),
        E2E_TEST(test_semaphores_of_a_caller),
        E2E_TEST(test_prefix_is_literal),
        E2E_TEST(test_pages),
        E2E_TEST(test_pages_while_locks_go),
        E2E_TEST(test_a_restart_between_two_pages),
        E2E_TEST(test_fields_in_a_body),
        E2E_TEST(test_wrong_queries),
        E2E_TEST(test_key_prefix_is_cut_off),
        E2E_TEST(test_a_page_among_other_keys),
        E2E_TEST(test_pages_among_other_keys),
        E2E_TEST(test_a_look_that_fails),
        E2E_TEST(test_a_page_of_git_lfs),
    };
    struct e2e_plan plan = {.name = "listing", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
