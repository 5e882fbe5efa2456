/* storage/redis/reply.c */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "storage/redis/reply.h"

#define SHA "9c3f0b0f3a9d5b8e2f7a1c4d6e8f0a2b4c6d8e0f"

static void expect_sorted(const char *error, enum redis_refusal want)
{
    enum redis_refusal refusal = want == REDIS_NOT_REFUSED ? REDIS_REFUSED_PERMISSION
                                                           : REDIS_NOT_REFUSED;
    enum redis_outcome outcome = redis_sort_error(error, &refusal);

    if (refusal != want ||
        outcome != (want == REDIS_NOT_REFUSED ? REDIS_UNKNOWN : REDIS_REFUSED))
        fail_msg("\"%s\" is sorted into %d, %d", error, (int)outcome, (int)refusal);
}

static const struct {
    const char *word, *rest;
    enum redis_refusal refusal;
} errors[] = {
    {"WRONGTYPE", " Operation against a key holding the wrong kind of value",
     REDIS_REFUSED_WRONG_TYPE},
    {"OOM", " command not allowed when used memory > 'maxmemory'.",
     REDIS_REFUSED_OUT_OF_MEMORY},
    {"NOPERM", " this user has no permissions to access one of the keys",
     REDIS_REFUSED_PERMISSION},
    {"NOAUTH", " Authentication required.", REDIS_REFUSED_PERMISSION},
    {"WRONGPASS", " invalid username-password pair or user is disabled.",
     REDIS_REFUSED_PERMISSION},
    {"LOADING", " Redis is loading the dataset in memory", REDIS_REFUSED_UNAVAILABLE},
    {"BUSY", " Redis is busy running a script.", REDIS_REFUSED_UNAVAILABLE},
    {"READONLY", " You can't write against a read only replica.", REDIS_REFUSED_UNAVAILABLE},
    {"MASTERDOWN", " Link with MASTER is down", REDIS_REFUSED_UNAVAILABLE},
    {"MISCONF", " Redis is configured to save RDB snapshots", REDIS_REFUSED_UNAVAILABLE},
    {"NOREPLICAS", " Not enough good replicas to write.", REDIS_REFUSED_UNAVAILABLE},
    {"NOSCRIPT", " No matching script. Please use EVAL.", REDIS_REFUSED_UNAVAILABLE},
    {"MOVED", " 3999 127.0.0.1:6381", REDIS_REFUSED_UNAVAILABLE},
    {"ASK", " 3999 127.0.0.1:6381", REDIS_REFUSED_UNAVAILABLE},
    {"TRYAGAIN", " Multiple keys request during rehashing of slot", REDIS_REFUSED_UNAVAILABLE},
    {"CLUSTERDOWN", " The cluster is down", REDIS_REFUSED_UNAVAILABLE},
    {"CROSSSLOT", " Keys in request don't hash to the same slot", REDIS_REFUSED_UNAVAILABLE},
    {"UNBLOCKED", " force unblock from blocking operation, instance state changed",
     REDIS_REFUSED_UNAVAILABLE},
    {"ERR No such master with that name", "", REDIS_REFUSED_UNAVAILABLE},
    {"ERR WAIT cannot be used with replica instances.",
     " Please also note that since Redis 4.0", REDIS_REFUSED_UNAVAILABLE},
};

enum { ERROR_COUNT = sizeof(errors) / sizeof(errors[0]) };

/* Redis 7: the word comes first, and what ran comes last. */
static void first_word_decides(void **state)
{
    char text[256];

    (void)state;
    for (size_t i = 0; i < ERROR_COUNT; i++) {
        snprintf(text, sizeof(text), "%s%s", errors[i].word, errors[i].rest);
        expect_sorted(text, errors[i].refusal);
        snprintf(text, sizeof(text), "%s%s script: " SHA ", on @user_script:12.",
                 errors[i].word, errors[i].rest);
        expect_sorted(text, errors[i].refusal);
        expect_sorted(errors[i].word, errors[i].refusal);
        snprintf(text, sizeof(text), "%s\r\nmore", errors[i].word);
        expect_sorted(text, errors[i].refusal);
    }
}

/* Redis 6.2: a script's error stands within another one, at times with the mark of an error
 * reply, and with the line twice. */
static void cause_is_found_in_the_wrapper(void **state)
{
    static const char *const places[] = {
        "@user_script:2: ",
        "@user_script:15: -",
        "@user_script:15: @user_script: 15: ",
        "@user_script:15: @user_script: 15: -",
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < ERROR_COUNT; i++) {
        for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
            snprintf(text, sizeof(text), "ERR Error running script (call to f_" SHA "): %s%s%s",
                     places[p], errors[i].word, errors[i].rest);
            expect_sorted(text, errors[i].refusal);
            /* The same as a reply that the script gave. */
            snprintf(text, sizeof(text), "%s%s%s", places[p], errors[i].word, errors[i].rest);
            expect_sorted(text, errors[i].refusal);
        }
    }
}

static void other_errors_leave_the_outcome_unknown(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "-",
        "ERR",
        "ERR unknown command 'X'",
        "ERR value is not an integer or out of range",
        "ERR user_script:3: Script attempted to access nonexistent global variable 'x' "
        "script: " SHA ", on @user_script:3.",
        "ERR Error running script (call to f_" SHA "): @user_script:3: user_script:3: "
        "attempt to index a nil value",
        "ERR Error running script",
        "ERR Error running script (call to f_" SHA "): OOM",
        "ERR Error compiling script (new function): user_script:1: OOM",
        "EXECABORT Transaction discarded because of previous errors.",
        "NOTBUSY No scripts in execution right now.",
        /* Only the whole word counts, in its case, and only at its place. */
        "OOMPH",
        "BUSYKEY Target key name already exists.",
        "BUSYGROUP Consumer Group name already exists",
        "oom command not allowed",
        "ASKING",
        "MOVE 1",
        "ERR OOM command not allowed",
        " OOM",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        expect_sorted(texts[i], REDIS_NOT_REFUSED);
}

/* What the accessors take for the reply of hiredis that they read. */
static const struct redis_value *value(const redisReply *reply)
{
    return (const struct redis_value *)reply;
}

static void replies_are_read(void **state)
{
    char granted[] = "granted", digits[] = "1750000000000001", ok[] = "OK";
    redisReply word = {.type = REDIS_REPLY_STRING, .str = granted, .len = 7};
    redisReply number = {.type = REDIS_REPLY_INTEGER, .integer = -2};
    redisReply text_number = {.type = REDIS_REPLY_STRING, .str = digits, .len = 16};
    redisReply status = {.type = REDIS_REPLY_STATUS, .str = ok, .len = 2};
    redisReply nil = {.type = REDIS_REPLY_NIL};
    redisReply *elements[] = {&word, &number, &text_number, &status, &nil};
    redisReply array = {.type = REDIS_REPLY_ARRAY, .elements = 5, .element = elements};
    size_t len;

    (void)state;
    assert_int_equal(value_count(value(&array)), 5);
    assert_ptr_equal(value_at(value(&array), 0), &word);
    assert_ptr_equal(value_at(value(&array), 4), &nil);
    assert_string_equal(value_text(value(&word), &len), "granted");
    assert_int_equal(len, 7);
    assert_string_equal(value_text(value(&status), &len), "OK");
    assert_int_equal(len, 2);
    assert_int_equal(value_integer(value(&number)), -2);
    assert_int_equal(value_integer(value(&text_number)), 1750000000000001);
}

static void what_is_not_there_is_empty(void **state)
{
    char granted[] = "granted", error_text[] = "ERR x";
    redisReply word = {.type = REDIS_REPLY_STRING, .str = granted, .len = 7};
    redisReply number = {.type = REDIS_REPLY_INTEGER, .integer = 7};
    redisReply error = {.type = REDIS_REPLY_ERROR, .str = error_text, .len = 5};
    redisReply *elements[] = {&word};
    redisReply array = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = elements};
    const redisReply *const no_texts[] = {NULL, &number, &array, &error};
    size_t len;

    (void)state;
    assert_null(value_at(value(&array), 1));
    assert_null(value_at(value(&word), 0));
    assert_null(value_at(NULL, 0));
    assert_int_equal(value_count(NULL), 0);
    assert_int_equal(value_count(value(&word)), 0);
    for (size_t i = 0; i < sizeof(no_texts) / sizeof(no_texts[0]); i++) {
        len = 99;
        assert_string_equal(value_text(value(no_texts[i]), &len), "");
        assert_int_equal(len, 0);
    }
    assert_int_equal(value_integer(NULL), 0);
    assert_int_equal(value_integer(value(&array)), 0);
    assert_int_equal(value_integer(value(&word)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_word_decides),
        cmocka_unit_test(cause_is_found_in_the_wrapper),
        cmocka_unit_test(other_errors_leave_the_outcome_unknown),
        cmocka_unit_test(replies_are_read),
        cmocka_unit_test(what_is_not_there_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
