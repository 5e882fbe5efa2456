/* Asks about locks, and prints what the servers tell. */
#include "client/look.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/boottime.h"
#include "client/holder.h"
#include "client/say.h"
#include "client/status.h"

enum { LOOK_MS = 10000 };

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

int look(struct http *http, const struct settings *settings, const struct http_request *request,
         json_t **body)
{
    struct http_request asked = *request;
    struct http_answer answer;

    *body = NULL;
    asked.timeout_ms = LOOK_MS;
    if (http_insist(http, &asked, &answer, boottime_ms() + settings->connect_timeout_ms) !=
        HTTP_ANSWERED) {
        say("no server could be reached: %s", http_trouble(http));
        return STATUS_UNREACHABLE;
    }
    if (answer.status >= 300) {
        const char *detail = json_string_value(json_object_get(answer.body, "detail"));
        say("%s", detail ? detail : "the server refused");
        http_answer_clear(&answer);
        return status_of(&answer);
    }
    *body = answer.body;
    return 0;
}

char *look_path(const char *name, const char *end)
{
    char *segment = http_segment(name), *path = NULL;

    if (!segment || asprintf(&path, "/v1/locks/%s%s", segment, end) < 0) {
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

static void print_row(const char *name, const char *kind, json_int_t remaining_ms,
                      const char *holder)
{
    printf("%-30s %-6s %8lld s  ", name, kind, (long long)(remaining_ms / 1000));
    for (; *holder; holder++) { /* a note may hold anything but control characters of ASCII */
        putchar((unsigned char)*holder < 0x20 ? '?' : *holder);
    }
    putchar('\n');
}

void look_print_lock(json_t *lock)
{
    const char *name = json_string_value(json_object_get(lock, "lock"));
    const char *kind = json_string_value(json_object_get(lock, "kind"));
    json_t *holder;
    size_t index;

    if (!json_is_true(json_object_get(lock, "locked"))) {
        printf("%-30s free\n", name ? name : "");
    }
    json_array_foreach(json_object_get(lock, "holders"), index, holder) {
        const char *who = holder_name(holder);
        json_t *left = json_object_get(holder, "remaining_ms");
        left = left ? left : json_object_get(lock, "remaining_ms");
        print_row(name ? name : "", kind ? kind : "", json_integer_value(left), who ? who : "");
    }
}
