/* The words of the status line: the holder of the lock, since when, how many wait in front. */
#include "client/holder.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/base/notify.h"
#include "client/say.h"

enum { TEXT_SIZE = 400, LOOK_MS = 3000, DAY_S = 86400 };

const char *holder_name(json_t *holder)
{
    static const char *const members[] = {"note", "session_name", "redisson_holder", "lease_id",
                                          "session_id"};

    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
        const char *text = json_string_value(json_object_get(holder, members[i]));
        if (text && *text) {
            return text;
        }
    }
    return NULL;
}

/* A time of day, which does not get old while the line stands; far away with its day. */
static void describe_time(json_t *ms_from_now, int sign, const char *before, char *out,
                          size_t size)
{
    char text[32];
    struct tm local;
    json_int_t s = json_integer_value(ms_from_now) / 1000;
    time_t at = time(NULL) + sign * (time_t)s;

    *out = '\0';
    if (json_is_integer(ms_from_now) && localtime_r(&at, &local) &&
        strftime(text, sizeof(text), s < DAY_S / 2 ? "%T" : "%b %e %R", &local) > 0) {
        snprintf(out, size, "%s%s", before, text);
    }
}

/* Requests before that of this lease; all where the server does not list it. */
static json_int_t count_in_front(const struct lease *lease)
{
    struct http_answer answer;
    struct http_request request = {.method = "GET",
                                   .path = lease->path,
                                   .lease_token = lease->token,
                                   .timeout_ms = LOOK_MS};
    json_int_t count = -1;
    json_t *waiter;
    size_t index;

    if (http_ask(lease->http, &request, &answer) != HTTP_ANSWERED || answer.status != 200) {
        http_answer_clear(&answer);
        return -1;
    }
    const char *own = json_string_value(
        json_object_get(json_object_get(answer.body, "lease"), "lease_id"));
    count = json_integer_value(json_object_get(answer.body, "waiter_count"));
    json_array_foreach(json_object_get(answer.body, "waiters"), index, waiter) {
        const char *id = json_string_value(json_object_get(waiter, "lease_id"));
        if (own && id && strcmp(id, own) == 0) {
            count = (json_int_t)index;
        }
    }
    http_answer_clear(&answer);
    return count;
}

/* "held by anna since 10:01:02, lease until 10:02:03", or why nobody can have it. */
static void describe_problem(json_t *problem, char *out, size_t size)
{
    json_t *holder = json_object_get(problem, "holder");
    const char *who = holder_name(holder);
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    char since[64], until[64];

    describe_time(json_object_get(holder, "held_ms"), -1, " since ", since, sizeof(since));
    describe_time(json_object_get(problem, "remaining_ms"), 1, ", lease until ", until,
                  sizeof(until));
    if (who) {
        snprintf(out, size, "held by %s%s%s", who, since, until);
    } else {
        snprintf(out, size, "%s%s", detail ? detail : "not free", until);
    }
}

void holder_tell(struct lease *lease, json_t *problem)
{
    const struct settings *settings = lease->settings;
    const char *lock = json_string_value(json_object_get(problem, "lock"));
    char front[64] = "", text[TEXT_SIZE];

    lock = lock ? lock : settings->names[0];
    describe_problem(problem, text, sizeof(text));
    say_clean(text); /* a line break would begin another message to the service manager */
    notify("STATUS=waiting for %s: %s", lock, text);
    if (settings->verbose) {
        say("waiting for %s: %s", lock, text);
    }
    if (settings->quiet || !say_has_status()) {
        return;
    }
    json_int_t count = settings->permit || settings->name_count > 1 ? -1
                                                                    : count_in_front(lease);
    if (count >= 0) {
        snprintf(front, sizeof(front), " (%lld in front)", (long long)count);
    }
    say_status("rlock: waiting for %s%s: %s", lock, front, text);
}
