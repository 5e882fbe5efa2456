/* What no honest client, Redis or operator does: rlockd stays, and says no. */
#include "harness.h"

#include "multi_locks.h"

enum { SOON_MS = 3000 };

static const char *long_name(struct world *w)
{
    char name[901];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    return text(w, "%s", name);
}

/* A lease record that no rlockd wrote: a name in it is longer than any name may be. */
static void test_a_record_with_a_long_name(struct world *w)
{
    const char *token = token_new(w), *name = long_name(w);
    struct reply *r = multi_put(w->a, NULL, token, "record/a record/b", NULL);
    const char *lease_id = reply_str(r, "lease_id");

    skip_on_cluster(w); /* the names are in several slots */
    expect_status(r, 201);
    redis_ok(w->redis, "DEL record/a record/b");
    assert_int_equal(redis_int(w->redis, "HSET %s %s 1", name, JAVA_HOLDER), 1);
    redis_ok(w->redis, "SET rlockd:lease:%s %s", lease_id,
             text(w, "waiting\n\nm.1\n1\n30000\n\n\n\n\nlock\n\n\n%s", name));
    r = multi_ask(w->a, "PATCH", token, NULL);
    expect_true(r, r->status >= 400);
    r = multi_ask(w->a, "GET", token, NULL);
    expect_true(r, r->status > 0);
    r = multi_ask(w->a, "DELETE", token, NULL);
    expect_true(r, r->status > 0);
    expect_status(http(w->a, "GET", "/livez", NULL), 200);
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_a_record_with_a_long_name),
    };
    struct e2e_plan plan = {.name = "hardening", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
