/* storage/wait/full_locks.c: how long a lock is remembered as full. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/base/clock.h"
#include "storage/wait/full_locks.h"

#define S CLOCK_NS_PER_S
#define NOW (1000 * S)

enum { PAUSE_S = 8 };

static void a_lock_is_full_for_some_seconds(void **state)
{
    struct full_locks locks = {0};

    (void)state;
    assert_false(full_locks_has(&locks, "a", NOW));
    full_locks_add(&locks, "a", NOW);
    assert_true(full_locks_has(&locks, "a", NOW));
    assert_false(full_locks_has(&locks, "b", NOW));
    assert_true(full_locks_has(&locks, "a", NOW + PAUSE_S * S - 1));
    assert_false(full_locks_has(&locks, "a", NOW + PAUSE_S * S));
    assert_null(locks.by_name);
    assert_null(locks.first_to_forget);
}

/* Requests that asked before the first answer tell it again: one asks again in time all the
 * same. */
static void the_first_answer_counts(void **state)
{
    struct full_locks locks = {0};

    (void)state;
    full_locks_add(&locks, "a", NOW);
    full_locks_add(&locks, "b", NOW + S);
    full_locks_add(&locks, "a", NOW + 2 * S);
    assert_false(full_locks_has(&locks, "a", NOW + PAUSE_S * S));
    assert_true(full_locks_has(&locks, "b", NOW + PAUSE_S * S));
    full_locks_add(&locks, "a", NOW + PAUSE_S * S);
    assert_true(full_locks_has(&locks, "a", NOW + (PAUSE_S + 1) * S));
    assert_false(full_locks_has(&locks, "b", NOW + (PAUSE_S + 1) * S));
    full_locks_release(&locks);
    assert_null(locks.by_name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_is_full_for_some_seconds),
        cmocka_unit_test(the_first_answer_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
