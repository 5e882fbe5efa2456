/* storage/lease/hand_over.c: what both requests learn of a hand-over. The calls are made up,
 * and answered when the test says so. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "storage/lease/hand_over.h"
#include "storage/lease/send.h"
#include "storage/lease/families.h"
#include "storage/store/store_internal.h"
#include "storage/notes/bind.h"

struct store_call {
    redis_done *done;
    void *arg;
};

static struct store_call call;

struct store_call *call_begin(struct store *store, enum script script)
{
    (void)store;
    assert_int_equal(script, SCRIPT_HAND_OVER);
    return &call;
}

struct key_base call_object(struct store_call *asked, const char *name)
{
    (void)asked;
    return (struct key_base){.text = name, .len = strlen(name)};
}

void call_key(struct store_call *asked, size_t at, enum key_kind kind, struct key_base of,
              const char *id)
{
    (void)asked;
    (void)at;
    (void)kind;
    (void)of;
    (void)id;
}

void call_text(struct store_call *asked, size_t at, const char *text, size_t len)
{
    (void)asked;
    (void)at;
    (void)text;
    (void)len;
}

void call_string(struct store_call *asked, size_t at, const char *text)
{
    call_text(asked, at, text, strlen(text));
}

void call_number(struct store_call *asked, size_t at, int64_t number)
{
    (void)asked;
    (void)at;
    (void)number;
}

void call_flag(struct store_call *asked, size_t at, bool flag)
{
    call_number(asked, at, flag);
}

void call_send(struct store_call *asked, redis_done *done, void *arg)
{
    *asked = (struct store_call){done, arg};
}

bool store_is_timed(const struct store *store)
{
    (void)store;
    return false;
}

/* What only replies of grants need. */

void store_observe_hold(const struct store *store, const char *name, int64_t fencing_token)
{
    (void)store;
    (void)name;
    (void)fencing_token;
    fail();
}

int64_t lease_fencing_ttl_ms(const struct store *store, int64_t keep_ms)
{
    (void)store;
    return keep_ms;
}

void lock_copy_text(const struct redis_value *reply, char *out, size_t out_size)
{
    (void)reply;
    (void)out;
    (void)out_size;
    fail();
}

void session_unbind(struct store *store, const char *session_id, const struct lease *lease,
                    const char *attempt)
{
    (void)store;
    (void)session_id;
    (void)lease;
    (void)attempt;
    fail();
}

void lease_reading_read(struct lease_reading *reading, const struct store *store,
                        const struct lease *lease, bool is_attempt,
                        const struct redis_result *result)
{
    (void)reading;
    (void)store;
    (void)lease;
    (void)is_attempt;
    (void)result;
    fail();
}

int64_t lease_none_left_ms(const struct lease_result *result)
{
    (void)result;
    fail();
    return 0;
}

/* --- what became of both ------------------------------------------------------------------ */

static struct {
    unsigned count;
    bool has_released, has_attempt;
    struct lease_result released, of_attempt;
    enum try_outcome outcome;
} ended;

static void on_done(void *arg, const struct hand_over_result *result)
{
    (void)arg;
    ended.count++;
    ended.has_released = result->released != NULL;
    ended.has_attempt = result->attempt != NULL;
    if (ended.has_released)
        ended.released = *result->released;
    if (!ended.has_attempt)
        return;
    ended.outcome = result->attempt->outcome;
    ended.of_attempt = *result->attempt->lease;
}

static void hand_over(const struct redis_result *answer)
{
    static struct config config;
    static struct store store = {.options.config = &config};
    static const struct attempt attempt = {.registered = true};
    struct lease lease = {.kind = KIND_LOCK, .names = lock_names_of_one("jobs")};
    struct lease next = {.kind = KIND_LOCK, .names = lock_names_of_one("jobs")};

    memset(&ended, 0, sizeof(ended));
    hand_over_send(&store, &lease, &next, &attempt, 0, on_done, NULL);
    lock_names_unref(lease.names);
    lock_names_unref(next.names);
    assert_int_equal(ended.count, 0);
    call.done(call.arg, answer);
    assert_int_equal(ended.count, 1);
}

/* The script may have released, and granted: neither request may take it for undone. */
static void an_unknown_outcome_is_that_of_both(void **state)
{
    static const struct {
        struct redis_result answer;
        enum call_outcome failure;
    } cases[] = {
        {{.outcome = REDIS_UNKNOWN}, CALL_UNKNOWN},
        {{.outcome = REDIS_UNKNOWN, .refusal = REDIS_NOT_REPLICATED}, CALL_NOT_REPLICATED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hand_over(&cases[i].answer);
        assert_true(ended.has_released && ended.has_attempt);
        assert_int_equal(ended.released.outcome, LEASE_FAILED);
        assert_int_equal(ended.released.failure, cases[i].failure);
        assert_int_equal(ended.outcome, TRY_UNKNOWN);
        assert_int_equal(ended.of_attempt.failure, cases[i].failure);
    }
}

/* The lease is still to be released, and the waiter waits as before. */
static void a_refused_script_changed_nothing(void **state)
{
    static const struct redis_result answer = {.outcome = REDIS_REFUSED};

    (void)state;
    hand_over(&answer);
    assert_false(ended.has_released || ended.has_attempt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_outcome_is_that_of_both),
        cmocka_unit_test(a_refused_script_changed_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
