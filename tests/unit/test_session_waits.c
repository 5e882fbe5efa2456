/* storage/session/waits.c: what a look at a session keeps of the reply about its waits, and
 * that nothing of it stays. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <string.h>

#include "server/base/config.h"
#include "storage/session/keep_alive.h"
#include "storage/store/store_internal.h"

#define ID "0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c11"

enum { WAITS = 3, VALUES = WAITS * SESSION_WAITS_REPLY_WAIT_VALUES };

static struct config config = {.key_prefix = "p:"};
static struct store store = {.options = {.config = &config}};
static struct look_call call;

static redisReply text_of(const char *text)
{
    return (redisReply){.type = REDIS_REPLY_STRING, .str = (char *)text, .len = strlen(text)};
}

/* A wait for one lock, a note that names none, a wait for two locks. */
static void take(void)
{
    static const char *const refs[WAITS] = {ID " p:one", "strange", ID " \np:two\np:three"};
    redisReply values[VALUES], *waits[VALUES];
    redisReply none = {.type = REDIS_REPLY_NIL}, list = {.type = REDIS_REPLY_ARRAY};
    redisReply *reply[SESSION_GET_REPLY_OPEN_WAITS + 1];

    for (size_t i = 0; i < VALUES; i++) {
        bool is_ref = i % SESSION_WAITS_REPLY_WAIT_VALUES == SESSION_WAITS_REPLY_WAIT_REF;
        values[i] = text_of(is_ref ? refs[i / SESSION_WAITS_REPLY_WAIT_VALUES] : "7");
        waits[i] = &values[i];
    }
    list.elements = VALUES;
    list.element = waits;
    for (size_t i = 0; i <= SESSION_GET_REPLY_OPEN_WAITS; i++)
        reply[i] = i == SESSION_GET_REPLY_OPEN_WAITS ? &list : &none;
    const redisReply whole = {.type = REDIS_REPLY_ARRAY,
                              .elements = SESSION_GET_REPLY_OPEN_WAITS + 1,
                              .element = reply};
    call = (struct look_call){.store = &store, .now_ms = 10};
    session_look_take_waits(&call, (const struct redis_value *)&whole);
}

static void a_look_has_the_waits_that_name_locks(void **state)
{
    (void)state;
    take();
    assert_int_equal(call.view.wait_count, 2);
    assert_string_equal(call.view.waits[0].lock, "one");
    assert_string_equal(call.view.waits[0].lease_id, ID);
    assert_string_equal(call.view.waits[0].note, "7");
    assert_int_equal(call.view.waits[0].waited_ms, 3);
    assert_int_equal(call.view.waits[1].locks->count, 2);
    session_look_free_waits(&call);
}

/* The answer to a look that failed later is made of an empty view. The leak checker of
 * `make SANITIZE=1 test` tells whether the waits are freed. */
static void a_look_that_failed_frees_its_waits(void **state)
{
    (void)state;
    take();
    call.view = (struct session_view){.outcome = SESSION_FAILED};
    session_look_free_waits(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_has_the_waits_that_name_locks),
        cmocka_unit_test(a_look_that_failed_frees_its_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
