/* storage/wait/session_watch.c: whom a notification reaches. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "storage/wait/session_watch.h"
#include "tests/unit/fake_topology.h"

enum { WATCHERS = 3, TURNS = 2 };

#define ID "0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c11"
#define OTHER_ID "1bb1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c11"

static struct session_watch *watch;
static struct session_watcher watchers[WATCHERS];
static int times[WATCHERS];
static int changes;
static char granted[96];

void acquirer_doubt_notes(struct acquirer *acquirer)
{
    (void)acquirer;
}

void acquirer_session_changed(struct acquirer *acquirer, const char *session_id,
                              const struct owner_grant *grant)
{
    (void)acquirer;
    assert_string_equal(session_id, ID);
    changes++;
    if (grant != NULL)
        snprintf(granted, sizeof(granted), "%s got %.*s", grant->owner, (int)grant->len,
                 grant->name);
}

void long_waits_asked(struct long_waits *long_waits, const char *session_id,
                      const char *question)
{
    (void)long_waits;
    (void)session_id;
    (void)question;
}

/* As a keep-alive that hangs does before it looks. */
static void on_notified(void *arg)
{
    struct session_watcher *watcher = arg;

    assert_true(++times[watcher - watchers] <= TURNS);
    assert_true(session_watcher_start(watch, watcher, 1000 * S));
}

static int start(void **state)
{
    static const char *const ids[WATCHERS] = {ID, ID, OTHER_ID};
    static struct wait_slots slots = {.limit = WATCHERS};
    const struct session_watch_options options = {
        .loop = &loop, .topology = &topology, .slots = &slots};

    (void)state;
    changes = 0;
    granted[0] = '\0';
    watch = session_watch_new(&options);
    for (size_t i = 0; i < WATCHERS; i++) {
        times[i] = 0;
        watchers[i] = (struct session_watcher){.notified = on_notified, .arg = &watchers[i]};
        snprintf(watchers[i].session_id, sizeof(watchers[i].session_id), "%s", ids[i]);
        assert_true(session_watcher_start(watch, &watchers[i], 1000 * S));
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < WATCHERS; i++)
        session_watcher_stop(&watchers[i]);
    session_watch_free(watch);
    return 0;
}

static void all_are_notified_once(void **state)
{
    (void)state;
    for (int turn = 1; turn <= TURNS; turn++) {
        session_watch_notify_all(watch);
        for (size_t i = 0; i < WATCHERS; i++)
            assert_int_equal(times[i], turn);
    }
}

static void hear(const char *payload)
{
    const struct subscription *sessions = topology.channels[0].owner;

    sessions->message(sessions->arg, payload, strlen(payload));
}

static void a_message_notifies_those_of_its_session_once(void **state)
{
    (void)state;
    hear(ID);
    assert_int_equal(times[0], 1);
    assert_int_equal(times[1], 1);
    assert_int_equal(times[2], 0);
    assert_int_equal(changes, 1);
    assert_string_equal(granted, "");
}

/* It is for the waiters of the owner alone. */
static void a_grant_to_an_owner_notifies_nobody(void **state)
{
    (void)state;
    hear(ID ":w-1.a x:{the lock} \n");
    assert_string_equal(granted, "w-1.a got x:{the lock} \n");
    assert_int_equal(changes, 1);
    for (size_t i = 0; i < WATCHERS; i++)
        assert_int_equal(times[i], 0);
}

/* Any client of Redis may publish. */
static void a_message_of_another_form_is_ignored(void **state)
{
    static const char longest[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char *const others[] = {"",       "0aa1f2d4",  ID "\n",
                                         ID "x",   ID ":",      ID ": ",
                                         ID ":me", ID ": jobs", ID "\nme jobs"};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        hear(others[i]);
    char too_long[160];
    snprintf(too_long, sizeof(too_long), ID ":%sx jobs", longest);
    hear(too_long);
    assert_int_equal(changes, 0);
    snprintf(too_long, sizeof(too_long), ID ":%s jobs", longest);
    hear(too_long);
    assert_int_equal(changes, 1);
    assert_int_equal(times[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_are_notified_once, start, stop),
        cmocka_unit_test_setup_teardown(a_message_notifies_those_of_its_session_once, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_grant_to_an_owner_notifies_nobody, start, stop),
        cmocka_unit_test_setup_teardown(a_message_of_another_form_is_ignored, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
