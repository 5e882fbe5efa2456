/* server/http/request.c: JSON bodies. */
#include "tests/unit/fake_request.h"

static void body_sets_fields(void **state)
{
    (void)state;
    make("", "{\"ttl\": 30000, \"note\": \"a\\u0020\\\"b\\\" \\ud83d\\udd12\", \"wait\": -5}");
    expect_taken();
    assert_int_equal(values.ttl.value, 30000);
    assert_int_equal(values.wait.value, -5);
    assert_string_equal(values.note.text, "a \"b\" \xF0\x9F\x94\x92");
    assert_false(values.name.given);

    make("", " {} \n");
    expect_taken();
    assert_true(request_no_fields(&request));

    /* Both may be used, for different fields. */
    make("ttl=100", "{\"note\": \"\"}");
    expect_taken();
    assert_true(values.ttl.given && values.note.given);
}

static void bad_bodies_are_refused(void **state)
{
    static const struct {
        const char *body, *part;
    } rows[] = {
        {" ", "body: not one JSON object"},
        {"{", "body: not one JSON object"},
        {"{} {}", "body: not one JSON object"},
        {"[]", "body: not one JSON object with unique members"},
        {"7", "body: not one JSON object"},
        {"null null", "body: not one JSON object"},
        {"nul", "body: not one JSON object"},
        {"{\"ttl\": 300, \"ttl\": 300}", "body: not one JSON object with unique members"},
        {"{'ttl': 300}", "body: not one JSON object"},
        {"{\"ttl\": 0300}", "body: not one JSON object"},
        {"{\"note\": \"\xFF\"}", "body: not one JSON object"},
        {"{\"note\": \"\\u0000\"}", "body: not one JSON object"},
        {"{\"ttl\": 9223372036854775808}", "body: not one JSON object"},
        {"{\"ttl\": \"300\"}", "ttl: not a whole number"},
        {"{\"ttl\": 300.5}", "ttl: not a whole number"},
        {"{\"ttl\": 1e300}", "ttl: not a whole number"},
        {"{\"wait\": 9007199254740994.0}", "wait: not a whole number"},
        {"{\"ttl\": 99.0}", "ttl: not a number from 100 to 86400000"},
        {"{\"ttl\": true}", "ttl: not a whole number"},
        {"{\"ttl\": 99}", "ttl: not a number from 100 to 86400000"},
        {"{\"note\": 1}", "note: not a string"},
        {"{\"note\": [\"a\"]}", "note: not a string"},
        {"{\"note\": \"a\\nb\"}", "note: not 0 to 512 bytes of UTF-8"},
        {"{\"note\": \"a\\u2028b\"}", "note: not 0 to 512 bytes of UTF-8"},
        {"{\"name\": \"\xC3\xBC\xC3\xBC\xC3\xBC\"}", "name: not 2 to 4 bytes"},
        {"{\"note\": \"a\", \x7F}", "body: not one JSON object"},
        {"{\"n\x7Fte\": 1}", "a name with control characters: there is no such field here"},
        {"{\"n\\u0085te\": 1}", "a name with control characters: there is no such field here"},
        {"{\"x\": 1}", "x: there is no such field here"},
        {"{\"x\": null}", "x: there is no such field here"},
        {"{\"\": 1}", ": there is no such field here"},
        {"{\"x\": 1, \"ttl\": 300}", "x: there is no such field here"},
        {"{\"x\": 1, \"y\": 1}", "x: there is no such field here"},
        {"{\"ttl\": 300, \"x\": not even JSON", "x: there is no such field here"},
        {"{\"note\": \"{\\\"x\\\": 1}\", \"y\": 1}", "y: there is no such field here"},
        {"{\"\\u0078\": 1}", "x: there is no such field here"},
        {"{\"ttl\": {\"x\": 1}}", "ttl: not a whole number"},
        {"{\"ttl", "body: not one JSON object"},
        {"{\"ttl\\", "body: not one JSON object"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        make("", rows[i].body);
        expect_refused(400, rows[i].part);
    }
    make("", "{\"ttl\": 300}");
    assert_false(request_no_fields(&request));
    expect_problem(400, "ttl: there is no such field here");
    make("ttl=300", "");
    assert_false(request_no_fields(&request));
    expect_problem(400, "ttl: there is no such field here");
}

static void make_repeated(const char *begin, const char *again, size_t count)
{
    static char body[HTTP_BODY_MAX];
    size_t len = (size_t)snprintf(body, sizeof(body), "%s", begin);

    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(body + len, sizeof(body) - len, "%s", again);
    make("", body);
}

/* Nothing of them is parsed: neither form needs memory, and what follows need not be JSON. */
static void bodies_of_many_values_are_refused(void **state)
{
    (void)state;
    make_repeated("{\"ttl\": 300", ", \"ttl\": 300", 63);
    expect_refused(400, "body: not one JSON object with unique members");
    make_repeated("{\"ttl\": 300", ", \"ttl\": 300", 1000);
    expect_refused(400, "values");
    make_repeated("{\"ttl\": ", "[", 2000);
    expect_refused(400, "values");
    make_repeated("[", "1,", 4000);
    expect_refused(400, "values");
}

/* What generated clients send for "nothing", and languages with one type of number. */
static void bodies_of_generators_are_taken(void **state)
{
    static const char *const empty[] = {"null", " null\n", "{}",
                                        "{\"ttl\": null, \"note\": null}"};
    static const char *const whole[] = {"{\"ttl\": 300.0}", "{\"ttl\": 3e2}",
                                        "{\"ttl\": 3000E-1, \"note\": null}"};

    (void)state;
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        make("", empty[i]);
        expect_taken();
        assert_false(values.ttl.given || values.note.given);
    }
    make("", "null");
    assert_true(request_no_fields(&request));
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        make("", whole[i]);
        expect_taken();
        assert_int_equal(values.ttl.value, 300);
    }
    make("", "{\"wait\": 9007199254740992.0}");
    expect_taken();
    assert_int_equal(values.wait.value, 9007199254740992);
}

static void query_and_body_may_agree(void **state)
{
    static const struct {
        const char *query, *body, *part;
    } differ[] = {
        {"ttl=300", "{\"ttl\": 301}", "ttl: the query and the body say different things"},
        {"ttl=300", "{\"ttl\": \"300\"}", "ttl: the query and the body"},
        {"note=a", "{\"note\": \"b\"}", "note: the query and the body"},
        {"note=a", "{\"note\": \"ab\"}", "note: the query and the body"},
        {"note=", "{\"note\": 0}", "note: the query and the body"},
    };

    (void)state;
    make("ttl=300&note=a+b", "{\"ttl\": 300.0, \"note\": \"a b\"}");
    expect_taken();
    assert_int_equal(values.ttl.value, 300);
    make("ttl=300", "{\"ttl\": null}");
    expect_taken();
    assert_int_equal(values.ttl.value, 300);
    for (size_t i = 0; i < sizeof(differ) / sizeof(differ[0]); i++) {
        make(differ[i].query, differ[i].body);
        expect_refused(400, differ[i].part);
    }
}

static void lists_may_agree(void **state)
{
    static const struct {
        const char *body;
        bool agrees;
    } rows[] = {
        {"{\"ids\": [\"" TOKEN "\"], \"names\": [\"a\", \"b\"]}", true},
        {"{\"ids\": [\"6F1C2A0E-7B1D-4E3F-9A51-0C2D4E6F8A01\"]}", true},
        {"{\"names\": [\"b\", \"a\"]}", false},
        {"{\"names\": [\"a\"]}", false},
        {"{\"names\": [\"a\", \"b\", \"c\"]}", false},
        {"{\"names\": [\"a\", 1]}", false},
        {"{\"names\": \"a\"}", false},
        {"{\"ids\": []}", false},
        {"{\"ids\": [\"" TOKEN "\", \"" TOKEN "\"]}", false},
    };
    static const struct field list_fields[] = {
        {"ids", FIELD_IDS, 0, 0, 2},
        {"names", FIELD_NAMES, sizeof(struct field_ids), 1, 3},
    };
    char ids[2][TOKEN_TEXT_SIZE], names[3][FIELD_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct {
            struct field_ids ids;
            struct field_names names;
        } lists = {{.ids = ids}, {.names = names}};

        make("ids=" TOKEN "&names=a&names=b", rows[i].body);
        if (request_fields(&request, list_fields, 2, &lists) != rows[i].agrees)
            fail_msg("%s", rows[i].body);
        if (!rows[i].agrees)
            expect_problem(400, "the query and the body say different things");
    }
}

static void body_ends_by_its_length(void **state)
{
    (void)state;
    make("", "{\"ttl\": 300}garbage");
    request.body_len = 12;
    expect_taken();
    make("", "{}");
    request.body = "{}\0";
    request.body_len = 3;
    expect_refused(400, "body: not one JSON object");
}

static void body_has_to_be_json(void **state)
{
    static const char *const good[] = {"application/json", "application/json; charset=utf-8",
                                       "Application/JSON;x=y",
                                       "application/json ; charset=utf-8"};
    static const char *const bad[] = {"",
                                      "text/plain",
                                      "application/jsonx",
                                      "application/json-patch+json",
                                      "application/merge-patch+json",
                                      "application/x-www-form-urlencoded",
                                      "application/jso"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        make("", "{\"ttl\": 300}");
        request.headers[HTTP_CONTENT_TYPE] = good[i];
        expect_taken();
        assert_true(values.ttl.given);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        make("", "{\"ttl\": 300}");
        request.headers[HTTP_CONTENT_TYPE] = bad[i];
        expect_refused(415, "application/json");
        /* No body, no type to look at. */
        make("ttl=300", "");
        request.headers[HTTP_CONTENT_TYPE] = bad[i];
        expect_taken();
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(body_sets_fields),
        TEST(bad_bodies_are_refused),
        TEST(body_ends_by_its_length),
        TEST(body_has_to_be_json),
        TEST(bodies_of_many_values_are_refused),
        TEST(bodies_of_generators_are_taken),
        TEST(query_and_body_may_agree),
        TEST(lists_may_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
