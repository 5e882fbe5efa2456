/* storage/store/lease_record.c, with records as storage/scripts/acquire.lua writes them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/lease_record.h"

#define MARK "0123456789abcdef.18446744073"
#define SESSION "5d1c2b0a-3f2e-5c4d-8b7a-9f0e1d2c3b4a"
#define OWNER "worker-3"
#define NAME "night build"

static struct lease_record record;

/* From memory of just that size, so that a step beyond it is noticed. */
static void parse(const char *text, size_t len)
{
    char *exact = malloc(len ? len : 1);

    assert_non_null(exact);
    memcpy(exact, text, len);
    memset(&record, '?', sizeof(record));
    lease_record_parse(&record, exact, len);
    free(exact);
}

static void expect(const char *state, const char *detail, int64_t since_ms, int64_t ttl_ms,
                   const char *note)
{
    assert_string_equal(record.state, state);
    assert_string_equal(record.detail, detail);
    assert_int_equal(record.since_ms, since_ms);
    assert_int_equal(record.ttl_ms, ttl_ms);
    assert_string_equal(record.note, note);
}

/* As format() of lib/lease.lua writes it. */
static size_t write_record(char *out, size_t size, const char *state, const char *detail,
                           const char *since, const char *ttl, const char *note)
{
    int len = snprintf(
        out, size, "%s\n%s\n" MARK "\n%s\n%s\n%s\n" SESSION "\n" NAME "\n17\n1\nlock\n" OWNER,
        state, detail, since, ttl, note);

    return (size_t)len;
}

static void what_is_written_comes_back(void **state)
{
    static const struct lease lease = {.kind = KIND_LOCK,
                                       .session_id = SESSION,
                                       .owner = OWNER,
                                       .note = "release 2.4",
                                       .attempt = MARK,
                                       .watchdog = true,
                                       .ttl_ms = 86400000};
    struct lease_record_text text;

    (void)state;
    lease_record_write(&text, &lease, NAME);
    parse(text.text, text.len);
    expect("held", "", 0, lease.ttl_ms, lease.note);
    assert_string_equal(record.session_id, SESSION);
    assert_string_equal(record.owner, OWNER);
    assert_string_equal(record.kind, "lock");
    assert_true(record.watchdog);
    assert_string_equal(record.session_name, NAME);
    assert_memory_equal(text.text + text.len - 9, "\n" OWNER, 9);
}

/* Behind the note, so that front ends that know no callers read the other lines. */
static void the_caller_comes_back(void **state)
{
    static const char *const notes[] = {"release 2.4", ""};
    struct lease lease = {.kind = KIND_LOCK, .attempt = MARK, .ttl_ms = 30000};
    struct lease_record_text text;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        memcpy(lease.note, notes[i], strlen(notes[i]) + 1);
        memcpy(lease.caller, "ci", 3);
        lease_record_write(&text, &lease, "");
        parse(text.text, text.len);
        expect("held", "", 0, 30000, notes[i]);
        assert_string_equal(record.caller, "ci");
        assert_memory_equal(text.text + text.len - 10, "\n\n\n\n\nlock\n", 10);
        lease.caller[0] = '\0';
        lease_record_write(&text, &lease, "");
        parse(text.text, text.len);
        expect("held", "", 0, 30000, notes[i]);
        assert_string_equal(record.caller, "");
        assert_null(memchr(text.text, LEASE_CALLER_MARK, text.len));
    }
}

/* A mark that no front end wrote. */
static void a_strange_caller_is_none(void **state)
{
    char line[200];

    (void)state;
    memset(line, 'c', sizeof(line));
    line[sizeof(line) - 1] = '\0';
    line[10] = LEASE_CALLER_MARK;
    memcpy(record.caller, "old", 4);
    lease_record_split(line, record.caller);
    assert_int_equal(strlen(line), 10);
    assert_string_equal(record.caller, "");
}

static void the_grant_is_dated(void **state)
{
    (void)state;
    assert_int_equal(lease_granted_us(7000, &(struct lease_record){.since_ms = 5}), 7000);
    assert_int_equal(lease_granted_us(0, &(struct lease_record){.since_ms = 5}), 5000);
    assert_int_equal(lease_granted_us(0, &(struct lease_record){0}), 0);
    assert_int_equal(lease_granted_us(0, &(struct lease_record){.since_ms = INT64_MAX}), 0);
    assert_int_equal(lease_granted_us(0, &(struct lease_record){.since_ms = INT64_MIN}), 0);
}

static void the_longest_record_fits(void **state)
{
    struct lease lease = {.kind = KIND_READ, .ttl_ms = INT64_MIN, .watchdog = true};
    struct lease_record_text text;
    char name[SESSION_NAME_SIZE] = "";

    (void)state;
    memset(name, 'N', sizeof(name) - 1);
    memset(lease.note, 'n', sizeof(lease.note) - 1);
    memset(lease.attempt, 'm', sizeof(lease.attempt) - 1);
    memset(lease.session_id, 's', sizeof(lease.session_id) - 1);
    memset(lease.owner, 'o', sizeof(lease.owner) - 1);
    memset(lease.caller, 'c', sizeof(lease.caller) - 1);
    lease_record_write(&text, &lease, name);
    parse(text.text, text.len);
    assert_string_equal(record.owner, lease.owner);
    assert_string_equal(record.note, lease.note);
    assert_string_equal(record.caller, lease.caller);
    assert_string_equal(record.session_name, name);
}

static void records_come_back(void **state)
{
    static const struct {
        const char *state, *detail, *since, *ttl, *note;
        int64_t since_ms, ttl_ms;
    } rows[] = {
        {"held", "", "", "30000", "", 0, 30000},
        {"held", "", "", "86400000", "build 17 on ci-3", 0, 86400000},
        {"waiting", "", "1750000000123", "30000", "\xC3\xBC {\"a\": 1}", 1750000000123, 30000},
        {"waiting", "shared", "1750000000123", "100", "", 1750000000123, 100},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = write_record(text, sizeof(text), rows[i].state, rows[i].detail,
                                  rows[i].since, rows[i].ttl, rows[i].note);
        parse(text, len);
        expect(rows[i].state, rows[i].detail, rows[i].since_ms, rows[i].ttl_ms, rows[i].note);
    }
}

static void longest_record_comes_back(void **state)
{
    char note[LOCK_NOTE_SIZE], text[2048];

    (void)state;
    memset(note, 'n', sizeof(note) - 1);
    note[sizeof(note) - 1] = '\0';
    size_t len = write_record(text, sizeof(text), "waiting", "shared", "9999999999999",
                              "86400000", note);
    parse(text, len);
    expect("waiting", "shared", 9999999999999, 86400000, note);
}

static void session_owner_and_watchdog_come_back(void **state)
{
    char text[1024];

    (void)state;
    parse(text, write_record(text, sizeof(text), "held", "", "1", "2", ""));
    assert_string_equal(record.session_id, SESSION);
    assert_string_equal(record.owner, OWNER);
    assert_true(record.watchdog);
    parse("held\n\n\n\n\n\n\n\n\n\nlock\n", 19);
    assert_string_equal(record.session_id, "");
    assert_string_equal(record.owner, "");
    assert_false(record.watchdog);
}

static void cut_off_records_give_what_there_is(void **state)
{
    (void)state;
    parse("", 0);
    expect("", "", 0, 0, "");
    parse("held", 4);
    expect("held", "", 0, 0, "");
    parse("held\n", 5);
    expect("held", "", 0, 0, "");
    parse("waiting\nshared\nm\n17", 19);
    expect("waiting", "shared", 17, 0, "");
    parse("waiting\nshared\nm\n17\n30\nnote", 27);
    expect("waiting", "shared", 17, 30, "note");
    parse("\n\n\n\n\n\n\n\n\n", 9);
    expect("", "", 0, 0, "");
    /* Bytes behind the end do not count. */
    lease_record_parse(&record, "held\nabc", 6);
    expect("held", "a", 0, 0, "");
}

/* A line that is longer than ours can be is none of ours. */
static void strange_lines_are_dropped(void **state)
{
    char text[1024];
    int len;

    (void)state;
    len = snprintf(text, sizeof(text), "%0*d\n%0*d\n%0*d\n%0*d\n%0*d\n%0*d\nlock\n\na", 16, 0,
                   16, 0, ATTEMPT_ID_SIZE, 0, 24, 7, 24, 7, LOCK_NOTE_SIZE, 0);
    parse(text, (size_t)len);
    expect("", "", 0, 0, "");
    len = snprintf(text, sizeof(text), "%0*d\n%0*d\n%0*d\n%0*d\n%0*d\n%0*d\nlock\n\na", 15, 0,
                   15, 0, ATTEMPT_ID_SIZE - 1, 0, 23, 7, 23, 8, LOCK_NOTE_SIZE - 1, 0);
    parse(text, (size_t)len);
    assert_int_equal(strlen(record.state), 15);
    assert_int_equal(strlen(record.detail), 15);
    assert_int_equal(record.since_ms, 7);
    assert_int_equal(record.ttl_ms, 8);
    assert_int_equal(strlen(record.note), LOCK_NOTE_SIZE - 1);

    parse("held\n\nm\nx\n99999999999999999999999\nn", 35);
    assert_int_equal(record.since_ms, 0);
    assert_int_equal(record.ttl_ms, INT64_MAX);
    parse("a\0b\nc", 5);
    expect("a", "c", 0, 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(the_caller_comes_back),
        cmocka_unit_test(a_strange_caller_is_none),
        cmocka_unit_test(the_grant_is_dated),
        cmocka_unit_test(the_longest_record_fits),
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(longest_record_comes_back),
        cmocka_unit_test(session_owner_and_watchdog_come_back),
        cmocka_unit_test(cut_off_records_give_what_there_is),
        cmocka_unit_test(strange_lines_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
