/* Asks about locks, and prints what the servers tell. */
#include "client/verbs/look.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/boottime.h"
#include "client/holder.h"
#include "client/say.h"
#include "client/status.h"

enum { LOOK_MS = 10000, LINE_SIZE = 2048 };

static int status_of(const struct http_answer *answer)
{
    switch (answer->status) {
    case 401:
    case 403:
        return STATUS_REFUSED;
    case 412:
    case 423:
    case 429:
        return STATUS_BUSY;
    }
    return STATUS_USAGE;
}

int look_ask(struct http *http, const struct http_request *request, int64_t until,
             struct http_answer *answer)
{
    struct http_request asked = *request;

    asked.timeout_ms += LOOK_MS;
    switch (http_outlast(http, &asked, answer, until)) {
    case HTTP_ANSWERED:
        return 0;
    case HTTP_NO_ANSWER:
        say("no server is available: %s", http_trouble(http));
        return STATUS_UNREACHABLE;
    case HTTP_UNKNOWN:
        if (request->once) {
            return LOOK_UNKNOWN;
        }
        say("whether it was done is unknown: %s", http_trouble(http));
        return STATUS_UNREACHABLE;
    case HTTP_INTERRUPTED:
        break;
    }
    return STATUS_FAULT;
}

int look_refused(const struct http_answer *answer)
{
    const char *detail = json_string_value(json_object_get(answer->body, "detail"));

    say("%s", detail ? detail : "the server refused");
    return status_of(answer);
}

int look_until(struct http *http, const struct http_request *request, int64_t until,
               json_t **body)
{
    struct http_answer answer;
    int status = look_ask(http, request, until, &answer);

    *body = NULL;
    if (status == 0 && answer.status >= 300) {
        status = look_refused(&answer);
        http_answer_clear(&answer);
    } else if (status == 0) {
        *body = answer.body;
    }
    return status;
}

int look(struct http *http, const struct settings *settings, const struct http_request *request,
         json_t **body)
{
    return look_until(http, request, boottime_ms() + settings->connect_timeout_ms, body);
}

int look_get(struct http *http, const struct settings *settings, char *path, json_t **body)
{
    struct http_request request = {.method = "GET", .path = path};
    int status = path ? look(http, settings, &request, body) : STATUS_FAULT;

    free(path);
    return status;
}

char *look_path(const char *before, const char *name, const char *end)
{
    char *segment = http_segment(name), *path = NULL;

    if (!segment || asprintf(&path, "%s%s%s", before, segment, end) < 0) {
        path = NULL;
    }
    free(segment);
    return path;
}

void look_print_json(json_t *body)
{
    json_dumpf(body, stdout, JSON_INDENT(2));
    putchar('\n');
}

void look_print(const char *format, ...)
{
    char line[LINE_SIZE];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    say_clean(line);
    puts(line);
}

const char *look_time(int64_t ms, char out[LOOK_TIME_SIZE])
{
    static const struct {
        int64_t below_s, s;
        const char *unit;
    } units[] = {
        {120, 1, "s"}, {7200, 60, "min"}, {172800, 3600, "h"}, {INT64_MAX, 86400, "d"}};
    int64_t s = ms / 1000;
    size_t at = 0;

    while (s >= units[at].below_s) {
        at++;
    }
    snprintf(out, LOOK_TIME_SIZE, "%lld %s", (long long)(s / units[at].s), units[at].unit);
    return out;
}

const char *look_holder(json_t *holder, char out[LOOK_HOLDER_SIZE])
{
    static const char *const members[] = {"session_name", "owner", "caller"};
    const char *name = holder_name(holder);
    int len = snprintf(out, LOOK_HOLDER_SIZE, "%s", name ? name : "unknown");

    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
        const char *text = json_string_value(json_object_get(holder, members[i]));
        if (text && *text && text != name && len < LOOK_HOLDER_SIZE) {
            len += snprintf(out + len, LOOK_HOLDER_SIZE - (size_t)len, ", %s %s",
                            i == 0 ? "session" : members[i], text);
        }
    }
    return out;
}

void look_print_headline(void)
{
    if (isatty(STDOUT_FILENO)) {
        printf("%-30s %-6s %9s %9s  %s\n", "LOCK", "KIND", "HELD", "LEFT", "HOLDER");
    }
}

static const char *time_of(json_t *ms, char out[LOOK_TIME_SIZE])
{
    return ms ? look_time(json_integer_value(ms), out) : "";
}

void look_print_lock(json_t *lock)
{
    const char *name = json_string_value(json_object_get(lock, "lock"));
    const char *kind = json_string_value(json_object_get(lock, "kind"));
    char held[LOOK_TIME_SIZE], left[LOOK_TIME_SIZE], who[LOOK_HOLDER_SIZE];
    json_t *holder;
    size_t index;

    if (!json_is_true(json_object_get(lock, "locked"))) {
        look_print("%-30s free", name ? name : "");
    }
    json_array_foreach(json_object_get(lock, "holders"), index, holder) {
        json_t *rest = json_object_get(holder, "remaining_ms");
        rest = rest ? rest : json_object_get(lock, "remaining_ms");
        look_print("%-30s %-6s %9s %9s  %s", name ? name : "", kind ? kind : "",
                   time_of(json_object_get(holder, "held_ms"), held), time_of(rest, left),
                   look_holder(holder, who));
    }
}
