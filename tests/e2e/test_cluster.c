/* Names whose keys a cluster keeps apart: make test-cluster. */
#include "multi_locks.h"

static void expect_refused(struct world *w, struct reply *r, const char *field)
{
    if (!redis_is_cluster()) {
        expect_true(r, r->status == 201);
        return;
    }
    expect_problem(r, 400, "malformed-request");
    expect_true(r, strncmp(reply_str(r, "detail"), field, strlen(field)) == 0);
    assert_int_equal(json_array_size(redis_keys(w->redis, "apart")), 0);
}

static void test_braces_that_are_no_pair(struct world *w)
{
    static const char *const names[] = {"apart}1", "apart{2", "apart{}3"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        expect_refused(w, lock_put(w->a, names[i], token_new(w), NULL), "name");
    expect_status(lock_put(w->a, "apart:{4}", token_new(w), NULL), 201);
    expect_status(http(w->a, "POST", "/v1/locks/apart:%7B4%7D/force-unlock", NULL), 200);
}

/* Hashes of others whose names no lock of a cluster can have. */
static void test_listings_pass_by_such_names(struct world *w)
{
    lock_put(w->a, "listed", token_new(w), NULL);
    redis_ok(w->redis, "HSET other}5 field 1");
    redis_ok(w->redis, "HSET other{}6 field 1");
    struct reply *r = http(w->a, "GET", "/v1/locks", NULL);
    expect_status(r, 200);
    assert_non_null(strstr(r->text, "\"listed\""));
    assert_null(strstr(r->text, "other"));
}

static void test_sets_share_a_tag(struct world *w)
{
    const char *token = token_new(w);

    expect_refused(w, multi_put(w->a, NULL, token_new(w), "apart/a apart/b", NULL), "locks");
    expect_refused(w, multi_put(w->a, NULL, token_new(w), "{apart/c} {apart/d}", NULL),
                   "locks");
    expect_status(multi_put(w->a, NULL, token, "{tag}a {tag}b x{tag}", NULL), 201);
    expect_str(multi_ask(w->a, "GET", token, NULL), "state", "held");
    expect_status(multi_ask(w->a, "PATCH", token, "ttl_ms=20000"), 200);
    expect_status(multi_ask(w->a, "DELETE", token, NULL), 200);
    expect_free(w, "{tag}a {tag}b x{tag}");
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_listings_pass_by_such_names),
        E2E_TEST(test_sets_share_a_tag),
        E2E_TEST(test_braces_that_are_no_pair),
    };
    struct e2e_plan plan = {.name = "cluster", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
