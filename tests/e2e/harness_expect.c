/* Expectations that say what they saw when they fail. */
#include "harness_world.h"

static void show(const struct reply *reply)
{
    fprintf(stderr, "the reply was: %d %s\n%s%s\n", reply->status,
            reply->error != NULL ? reply->error : "", reply->head, reply->text);
}

void expect_status_at(const struct reply *reply, int status, const char *file, int line)
{
    if (reply->status == status)
        return;
    show(reply);
    fail_at(file, line, "status %d instead of %d", reply->status, status);
}

static bool header_is(const struct reply *reply, const char *line_start)
{
    return strcasestr(reply->head, line_start) != NULL;
}

static void passing_check(const struct reply *reply, const char *file, int line)
{
    const char *field = strcasestr(reply->head, "\nRetry-After:");

    if (field != NULL && atoi(field + strlen("\nRetry-After:")) >= 1)
        return;
    show(reply);
    fail_at(file, line, "no Retry-After of at least one second");
}

void expect_problem_at(const struct reply *reply, int status, const char *code,
                       const char *file, int line)
{
    char type[128];
    const char *detail = reply_str(reply, "detail");
    const char *title = reply_str(reply, "title");

    snprintf(type, sizeof(type), "urn:rlockd:problem:%s", code);
    expect_status_at(reply, status, file, line);
    expect_str_at(reply, "type", type, file, line);
    expect_between_at(reply, "status", status, status, file, line);
    if (!header_is(reply, "\nContent-Type: application/problem+json") || title == NULL ||
        *title == '\0' || detail == NULL || *detail == '\0') {
        show(reply);
        fail_at(file, line, "not a problem document with title and detail");
    }
    if (status == 423 || status == 429 || status == 503)
        passing_check(reply, file, line);
    if (status != 503)
        return;
    if (reply_str(reply, "outcome") == NULL ||
        (strcmp(reply_str(reply, "outcome"), "unknown") != 0 &&
         strcmp(reply_str(reply, "outcome"), "not-executed") != 0)) {
        show(reply);
        fail_at(file, line, "a 503 without outcome");
    }
}

void expect_str_at(const struct reply *reply, const char *path, const char *value,
                   const char *file, int line)
{
    const char *is = reply_str(reply, path);

    if (is != NULL && strcmp(is, value) == 0)
        return;
    show(reply);
    fail_at(file, line, "%s is not \"%s\"", path, value);
}

void expect_between_at(const struct reply *reply, const char *path, json_int_t low,
                       json_int_t high, const char *file, int line)
{
    json_t *value = reply_get(reply, path);

    if (json_is_integer(value) && json_integer_value(value) >= low &&
        json_integer_value(value) <= high)
        return;
    show(reply);
    fail_at(file, line, "%s is not an integer in %lld..%lld", path, (long long)low,
            (long long)high);
}

void expect_bool_at(const struct reply *reply, const char *path, bool value, const char *file,
                    int line)
{
    json_t *is = reply_get(reply, path);

    if (json_is_boolean(is) && json_is_true(is) == value)
        return;
    show(reply);
    fail_at(file, line, "%s is not %s", path, value ? "true" : "false");
}

void expect_absent_at(const struct reply *reply, const char *path, const char *file, int line)
{
    if (json_is_object(reply->json) && reply_get(reply, path) == NULL)
        return;
    show(reply);
    fail_at(file, line, "%s should not be there", path);
}

void expect_detail_at(const struct reply *reply, const char *word, const char *file, int line)
{
    const char *detail = reply_str(reply, "detail");

    if (detail != NULL && strstr(detail, word) != NULL)
        return;
    show(reply);
    fail_at(file, line, "the detail does not name %s", word);
}
