/* storage/wait/long_waits.c: which waits answer a question about their session. The notes of
 * the waits are only made up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "storage/census/census.h"
#include "storage/notes/waits.h"
#include "storage/store/store_internal.h"
#include "storage/wait/acquire_internal.h"
#include "storage/wait/deadlock_check.h"
#include "storage/wait/long_waits.h"

static struct config config = {.deadlock_check_ms = 3600000};
static struct store store = {.options = {.config = &config, .worker_id = "worker"}};
static struct long_waits *long_waits;
static struct lease lease = {.session_id = "s", .kind = KIND_LOCK};
static struct acquisition acquisition = {.lease = &lease};
static struct long_wait *wait;
static session_wait_done *noting; /* NULL: no note is under way */
static void *noting_arg;
static unsigned answers;

void session_wait_note(struct store *asked, const struct lease *noted, const char *wait_id,
                       int64_t waited_ms, const char *question, session_wait_done *done,
                       void *arg)
{
    (void)asked;
    (void)wait_id;
    (void)waited_ms;
    assert_ptr_equal(noted, &lease);
    if (question != NULL) {
        answers++;
        return;
    }
    assert_null(noting);
    noting = done;
    noting_arg = arg;
}

void session_wait_end(struct store *asked, const char *session_id, const char *wait_id)
{
    (void)asked;
    (void)wait_id;
    assert_string_equal(session_id, lease.session_id);
}

void census_note_wait(struct store *asked, const struct census_wait *noted, int64_t waited_ms,
                      int64_t left_ms, census_noted_done *done, void *arg)
{
    (void)asked;
    (void)noted;
    (void)waited_ms;
    (void)left_ms;
    done(arg, false);
}

void census_end_wait(struct store *asked, const struct census_wait *noted)
{
    (void)asked;
    (void)noted;
}

struct deadlock_check *deadlock_check_start(struct store *asked, struct turns *turns,
                                            const struct deadlock_member *self,
                                            const struct lock_names *names,
                                            deadlock_check_done *done, void *arg)
{
    (void)asked;
    (void)turns;
    (void)self;
    (void)names;
    (void)done;
    (void)arg;
    fail_msg("no wait of these tests lasts for long enough");
    return NULL;
}

void deadlock_check_cancel(struct deadlock_check *check)
{
    (void)check;
}

static void note_ends(enum call_outcome outcome, bool is_noted)
{
    const struct session_wait_noted noted = {.outcome = outcome, .is_noted = is_noted};
    session_wait_done *done = noting;

    assert_non_null(done);
    noting = NULL;
    done(noting_arg, &noted);
}

static unsigned answers_to(const char *session_id)
{
    answers = 0;
    long_waits_asked(long_waits, session_id, "question");
    return answers;
}

static int begin(void **state)
{
    const struct long_wait_watcher *watcher;

    (void)state;
    long_waits = long_waits_new(&store);
    assert_non_null(long_waits);
    watcher = long_waits_watcher(long_waits);
    lease.names = lock_names_of_one("orders");
    acquisition.wait_began_ns = loop_now_ns(store.options.loop);
    wait = watcher->began(watcher->arg, &acquisition);
    return 0;
}

static int end(void **state)
{
    (void)state;
    long_waits_watcher(long_waits)->ended(wait, false);
    if (noting != NULL)
        note_ends(CALL_DONE, true);
    lock_names_unref(lease.names);
    long_waits_free(long_waits);
    return 0;
}

static void a_wait_in_the_home_answers(void **state)
{
    (void)state;
    note_ends(CALL_DONE, true);
    assert_int_equal(answers_to("s"), 1);
    assert_int_equal(answers_to("other"), 0);
}

/* The home has room for some waits; a session with a thousand would send a thousand scripts for
 * each question. */
static void a_wait_without_a_note_answers_nothing(void **state)
{
    (void)state;
    assert_int_equal(answers_to("s"), 0);
    note_ends(CALL_DONE, false);
    assert_int_equal(answers_to("s"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_wait_in_the_home_answers, begin, end),
        cmocka_unit_test_setup_teardown(a_wait_without_a_note_answers_nothing, begin, end),
    };

    store.options.loop = loop_new();
    assert_non_null(store.options.loop);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    loop_free(store.options.loop);
    return failed;
}
