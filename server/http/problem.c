/* The table of problems, and the answers made from it. */
#include "server/http/problem.h"

#include <stdarg.h>
#include <stdio.h>

#include "server/http/http.h"

struct problem_row {
    int status;
    const char *code, *title;
    const char *retry_after; /* seconds; NULL: asking again would not help by itself */
};

static const struct problem_row problem_rows[PROBLEM_COUNT] = {
    [PROBLEM_MALFORMED_REQUEST] = {400, "malformed-request", "Malformed request", NULL},
    [PROBLEM_UNAUTHENTICATED] = {401, "unauthenticated", "No valid API token", NULL},
    [PROBLEM_FORBIDDEN] = {403, "forbidden", "Not allowed", NULL},
    [PROBLEM_NOT_FOUND] = {404, "not-found", "Not found", NULL},
    [PROBLEM_METHOD_NOT_ALLOWED] = {405, "method-not-allowed", "Method not allowed", NULL},
    [PROBLEM_WRONG_KIND] = {409, "wrong-kind", "In use as another kind of object", NULL},
    [PROBLEM_FENCING_TOKEN_STALE] = {409, "fencing-token-stale", "Not the current grant", NULL},
    [PROBLEM_LOCK_EXISTS] = {409, "lock-exists", "The path is locked", NULL},
    [PROBLEM_LEASE_ENDED] = {410, "lease-ended", "The lease has ended", NULL},
    [PROBLEM_SESSION_ENDED] = {410, "session-ended", "The session has ended", NULL},
    [PROBLEM_LENGTH_REQUIRED] = {411, "length-required", "Content-Length required", NULL},
    [PROBLEM_PRECONDITION_FAILED] = {412, "precondition-failed", "Precondition failed", NULL},
    [PROBLEM_TOO_LARGE] = {413, "too-large", "Body too large", NULL},
    [PROBLEM_UNSUPPORTED_MEDIA_TYPE] = {415, "unsupported-media-type", "Not JSON", NULL},
    [PROBLEM_TOKEN_REUSED] = {422, "token-reused", "Token used for something else", NULL},
    [PROBLEM_STATE_OF_WRONG_KIND] = {422, "wrong-kind", "In use as another kind of object",
                                     NULL},
    [PROBLEM_LOCKED] = {423, "locked", "Locked", "1"},
    [PROBLEM_DEADLOCK] = {423, "deadlock", "Deadlock", "1"},
    [PROBLEM_TOO_MANY_WAITERS] = {429, "too-many-waiters", "Too many waiters", "1"},
    [PROBLEM_LIMIT_REACHED] = {429, "limit-reached", "Limit reached", "1"},
    [PROBLEM_HEADERS_TOO_LARGE] = {431, "headers-too-large", "Headers too large", NULL},
    [PROBLEM_NOT_SUPPORTED] = {501, "not-supported", "Not offered by a quorum", NULL},
    [PROBLEM_REDIS_UNAVAILABLE] = {503, "redis-unavailable", "Redis is unavailable", "1"},
    [PROBLEM_DRAINING] = {503, "draining", "Shutting down", "1"},
};

/* The codes of a problem, for the log. */
static void log_codes(struct http_request *request, const char *code, const json_t *members)
{
    static const char *const names[] = {"reason", "outcome"};

    http_log_text(request, "problem", code);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = json_string_value(json_object_get(members, names[i]));
        if (value != NULL)
            http_log_text(request, names[i], value);
    }
}

/* The members by which clients of other protocols read a problem. */
static void add_dialect(json_t *body, enum route_dialect dialect, const char *code,
                        const char *sentence)
{
    switch (dialect) {
    case DIALECT_RLOCKD:
        return;
    case DIALECT_FLEETLOCK:
        json_object_set_new(body, "kind", json_string(code));
        json_object_set_new(body, "value", json_string(sentence));
        return;
    case DIALECT_GIT_LFS:
        json_object_set_new(body, "message", json_string(sentence));
        return;
    }
}

void problem_reply(struct http_request *request, enum problem problem, json_t *members,
                   const char *detail, ...)
{
    const struct problem_row *row = &problem_rows[problem];
    char type[64], sentence[1024]; /* longer than any detail with any name in it */
    va_list args;

    va_start(args, detail);
    vsnprintf(sentence, sizeof(sentence), detail, args);
    va_end(args);
    snprintf(type, sizeof(type), "urn:rlockd:problem:%s", row->code);
    json_t *body = json_pack("{s:s, s:s, s:i}", "type", type, "title", row->title, "status",
                             row->status);
    if (body != NULL) {
        json_object_set_new(body, "detail", json_string(sentence));
        add_dialect(body, http_dialect(request), row->code, sentence);
        if (members != NULL)
            json_object_update(body, members);
    }
    log_codes(request, row->code, members);
    json_decref(members);
    if (row->retry_after != NULL && !http_reply_has_header(request, "Retry-After"))
        http_reply_header(request, "Retry-After", row->retry_after);
    http_reply_problem(request, row->status, body);
}
