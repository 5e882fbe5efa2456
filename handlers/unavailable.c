/* 503: the answers of Redis that are none, and what an operator needs to know of them. */
#include <inttypes.h>
#include <stdio.h>

#include "handlers/context.h"
#include "handlers/lease_reply.h"
#include "server/http/problem.h"

enum { HEARD_SIZE = STORE_HEARD_SIZE + 4 };

/* Of a quorum. */
static const char *in_brackets(const struct http_request *http, char text[HEARD_SIZE])
{
    const struct handler_context *context = http_context(http);
    char heard[STORE_HEARD_SIZE];

    store_describe_members(context->store, heard);
    text[0] = '\0';
    if (heard[0] != '\0')
        snprintf(text, HEARD_SIZE, " (%s)", heard);
    return text;
}

static void reply_quarantine(struct http_request *http)
{
    const struct handler_context *context = http_context(http);
    int64_t left_ms = store_quarantine_ms(context->store, NULL);
    char seconds[24], heard[HEARD_SIZE];

    snprintf(seconds, sizeof(seconds), "%" PRId64, left_ms / 1000 + 1);
    http_reply_header(http, "Retry-After", seconds);
    problem_reply(http, PROBLEM_REDIS_UNAVAILABLE,
                  json_pack("{s:s, s:s, s:I}", "outcome", "not-executed", "reason",
                            "quarantine", "retry_after_ms", (json_int_t)left_ms),
                  "Redis may have lost leases that still run: until they have ended, leases "
                  "are renewed and released, not granted%s",
                  in_brackets(http, heard));
}

static void reply_refused(struct http_request *http)
{
    const struct handler_context *context = http_context(http);
    json_t *members = json_pack("{s:s}", "outcome", "not-executed");
    char heard[HEARD_SIZE];
    const char *why_not;

    if (topology_is_ready(context->topology, &why_not)) {
        problem_reply(http, PROBLEM_REDIS_UNAVAILABLE, members,
                      "Redis refused the command: nothing was changed%s",
                      in_brackets(http, heard));
        return;
    }
    if (context->is_quorum)
        json_object_set_new(members, "reason", json_string("quorum"));
    problem_reply(http, PROBLEM_REDIS_UNAVAILABLE, members, "nothing was changed: %s", why_not);
}

static void reply_unknown(struct http_request *http)
{
    const struct handler_context *context = http_context(http);
    json_t *members = json_pack("{s:s}", "outcome", "unknown");
    char heard[HEARD_SIZE];

    if (context->is_quorum)
        problem_reply(
            http, PROBLEM_REDIS_UNAVAILABLE, members,
            "no majority of the Redis servers has said the same%s: repeat the request "
            "with the same token",
            in_brackets(http, heard));
    else
        problem_reply(http, PROBLEM_REDIS_UNAVAILABLE, members,
                      "Redis did not answer: repeat the request with the same token");
}

void reply_unavailable(struct http_request *http, enum call_outcome failure)
{
    char heard[HEARD_SIZE];

    switch (failure) {
    case CALL_OUT_OF_MEMORY:
        problem_reply(http, PROBLEM_REDIS_UNAVAILABLE,
                      json_pack("{s:s}", "outcome", "not-executed"),
                      "Redis is out of memory: nothing was changed; leases can be renewed and "
                      "released%s",
                      in_brackets(http, heard));
        return;
    case CALL_QUARANTINE:
        reply_quarantine(http);
        return;
    case CALL_NOT_REPLICATED:
        problem_reply(http, PROBLEM_REDIS_UNAVAILABLE,
                      json_pack("{s:s, s:s}", "outcome", "unknown", "reason", "not-replicated"),
                      "too few replicas have confirmed the change: a failover may undo it, "
                      "and a grant is withdrawn; repeat the request with the same token");
        return;
    case CALL_UNKNOWN:
        reply_unknown(http);
        return;
    case CALL_DONE:
    case CALL_WRONG_TYPE:
    case CALL_NOT_EXECUTED:
        break;
    }
    reply_refused(http);
}
