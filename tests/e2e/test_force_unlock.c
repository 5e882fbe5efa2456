/* The operator's way out, and the check of a fencing token. */
#include "harness.h"

static struct reply *force(struct front *fe, const char *name, const char *if_match)
{
    struct world *w = fe->world;

    return HTTP(fe, .method = "POST", .path = lock_path(w, name, "/force-unlock"),
                .headers = {if_match != NULL ? text(w, "If-Match: %s", if_match) : NULL});
}

static struct reply *check(struct front *fe, const char *name, const char *number)
{
    struct world *w = fe->world;

    return http(fe, "GET", lock_path(w, name, text(w, "/fencing-tokens/%s", number)), NULL);
}

static void test_frees_whoever_holds(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "force", token, NULL), 201);
    r = force(w->a, "force", NULL);
    expect_status(r, 200);
    expect_str(r, "lock", "force");
    expect_bool(r, "unlocked", true);
    assert_false(redis_has(w->redis, "force"));
    r = force(w->a, "force", NULL);
    expect_status(r, 200);
    expect_bool(r, "unlocked", false);
    expect_status(lock_put(w->a, "force", token_new(w), NULL), 201);
}

static void test_the_loser_is_told(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r;

    expect_status(lock_put(w->a, "forced-out", token, NULL), 201);
    expect_status(force(w->a, "forced-out", NULL), 200);
    expect_status(lock_put(w->a, "forced-out", token_new(w), NULL), 201);
    r = lock_renew(w->a, "forced-out", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "forced");
    r = lock_put(w->a, "forced-out", token, NULL);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "forced");
    r = lock_release(w->a, "forced-out", token);
    expect_problem(r, 410, "lease-ended");
    expect_str(r, "reason", "forced");
    assert_true(redis_has(w->redis, "forced-out"));
}

static void test_frees_a_java_holder_with_its_message(struct world *w)
{
    struct listener *listener = listener_start(w->redis, "redisson_lock__channel:{force-java}");

    assert_true(redisson_lock(w->redis, "force-java", JAVA_HOLDER, 30000));
    expect_bool(force(w->a, "force-java", NULL), "unlocked", true);
    assert_false(redis_has(w->redis, "force-java"));
    assert_string_equal(listener_next(listener, 5000), "0");
    assert_null(listener_next(listener, 100));
    /* A free lock has nobody to tell. */
    expect_bool(force(w->a, "force-java", NULL), "unlocked", false);
    assert_null(listener_next(listener, 100));
}

static void test_if_match_frees_only_that_grant(struct world *w)
{
    const char *first = token_new(w), *second = token_new(w);
    struct reply *old = lock_put(w->a, "match", first, NULL);
    struct reply *r;
    const char *old_match, *match;

    expect_status(lock_release(w->a, "match", first), 200);
    old_match = text(w, "\"%lld\"", (long long)reply_int(old, "fencing_token"));
    /* Free: there is no such grant. */
    expect_problem(force(w->a, "match", old_match), 412, "precondition-failed");
    r = lock_put(w->a, "match", second, NULL);
    match = text(w, "\"%lld\"", (long long)reply_int(r, "fencing_token"));
    expect_problem(force(w->a, "match", old_match), 412, "precondition-failed");
    expect_status(lock_put(w->a, "match", second, NULL), 200);
    r = force(w->a, "match", match);
    expect_status(r, 200);
    expect_bool(r, "unlocked", true);
    expect_problem(force(w->a, "match", match), 412, "precondition-failed");
}

static void test_if_match_star_and_nonsense(struct world *w)
{
    static const char *const wrong[] = {"12x", "\"12x\"", "\"-1\"", "\"\"", "\"12", "W/\"1\""};

    expect_status(lock_put(w->a, "star", token_new(w), NULL), 201);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct reply *r = force(w->a, "star", wrong[i]);

        expect_problem(r, 400, "malformed-request");
        expect_detail(r, "If-Match");
    }
    assert_true(redis_has(w->redis, "star"));
    expect_bool(force(w->a, "star", "*"), "unlocked", true);
    expect_problem(force(w->a, "star", "*"), 412, "precondition-failed");
}

static void test_a_java_hold_has_no_grant_to_match(struct world *w)
{
    const char *token = token_new(w);
    struct reply *r = lock_put(w->a, "match-java", token, NULL);
    const char *match = text(w, "\"%lld\"", (long long)reply_int(r, "fencing_token"));

    expect_status(lock_release(w->a, "match-java", token), 200);
    /* A fenced Java lock issues the next number of the same counter. */
    assert_true(redisson_fenced_lock(w->redis, "match-java", JAVA_HOLDER, 30000));
    expect_problem(force(w->a, "match-java", match), 412, "precondition-failed");
    match = text(w, "\"%lld\"", (long long)reply_int(r, "fencing_token") + 1);
    expect_problem(force(w->a, "match-java", match), 412, "precondition-failed");
    assert_true(redis_has(w->redis, "match-java"));
}

/* A plain Java lock issues no number: that of the grant before is still the newest. */
static void test_a_plain_java_hold_is_not_the_grant_before(struct world *w)
{
    static const char *const kinds[] = {"kind=lock", "kind=fair"};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *token = token_new(w), *name = text(w, "before-java-%zu", i);
        struct reply *r = lock_put(w->a, name, token, kinds[i]);
        const char *match = text(w, "\"%lld\"", (long long)reply_int(r, "fencing_token"));

        expect_status(lock_release(w->a, name, token), 200);
        assert_true(redisson_lock(w->redis, name, JAVA_HOLDER, 30000));
        expect_problem(force(w->a, name, match), 412, "precondition-failed");
        assert_true(redis_has(w->redis, name));
        expect_bool(force(w->a, name, "*"), "unlocked", true);
        assert_false(redis_has(w->redis, name));
    }
}

static void test_foreign_data_is_not_deleted(struct world *w)
{
    static const char *const keys[] = {"foreign:string", "foreign:list", "foreign:map",
                                       "foreign:rw"};

    redis_ok(w->redis, "SET foreign:string 1 EX 60");
    redis_ok(w->redis, "RPUSH foreign:list 1");
    redis_ok(w->redis, "HSET foreign:map name value other 2");
    redis_ok(w->redis, "HSET foreign:rw mode read c:1 1");
    redis_ok(w->redis, "PEXPIRE foreign:rw 60000");
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        expect_problem(force(w->a, keys[i], NULL), 409, "wrong-kind");
        assert_true(redis_has(w->redis, keys[i]));
        expect_problem(lock_put(w->a, keys[i], token_new(w), NULL), 409, "wrong-kind");
        assert_true(redis_has(w->redis, keys[i]));
    }
    redis_ok(w->redis, "DEL foreign:string");
    redis_ok(w->redis, "DEL foreign:list");
    redis_ok(w->redis, "DEL foreign:map");
    redis_ok(w->redis, "DEL foreign:rw");
}

static void test_fencing_token_check(struct world *w)
{
    const char *token = token_new(w);
    struct reply *held = lock_put(w->a, "fenced", token, NULL);
    json_int_t number = reply_int(held, "fencing_token");
    struct reply *r = check(w->a, "fenced", text(w, "%lld", (long long)number));

    expect_status(r, 200);
    expect_str(r, "lock", "fenced");
    expect_int(r, "fencing_token", number);
    expect_bool(r, "current", true);
    r = check(w->a, "fenced", text(w, "%lld", (long long)number - 1));
    expect_problem(r, 409, "fencing-token-stale");
    expect_bool(r, "current", false);
    r = check(w->a, "fenced", text(w, "%lld", (long long)number + 1));
    expect_problem(r, 409, "fencing-token-stale");
    expect_status(lock_release(w->a, "fenced", token), 200);
    /* Nobody holds it now, so no grant is current. */
    r = check(w->a, "fenced", text(w, "%lld", (long long)number));
    expect_problem(r, 409, "fencing-token-stale");
    expect_bool(r, "current", false);
    expect_problem(check(w->a, "fenced-never", "1"), 409, "fencing-token-stale");
}

static void test_fencing_token_is_a_positive_decimal(struct world *w)
{
    static const char *const wrong[] = {"0",  "-1",  "+1",  "x",
                                        "1x", "1.5", "%20", "99999999999999999999999"};

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        expect_problem(check(w->a, "fenced", wrong[i]), 400, "malformed-request");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_frees_whoever_holds),
        E2E_TEST(test_the_loser_is_told),
        E2E_TEST(test_frees_a_java_holder_with_its_message),
        E2E_TEST(test_if_match_frees_only_that_grant),
        E2E_TEST(test_if_match_star_and_nonsense),
        E2E_TEST(test_a_java_hold_has_no_grant_to_match),
        E2E_TEST(test_a_plain_java_hold_is_not_the_grant_before),
        E2E_TEST(test_foreign_data_is_not_deleted),
        E2E_TEST(test_fencing_token_check),
        E2E_TEST(test_fencing_token_is_a_positive_decimal),
    };
    struct e2e_plan plan = {.name = "force-unlock", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
