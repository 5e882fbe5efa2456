/* Common to semaphores and latches: PUT, DELETE, and how requests fail. */
#include "handlers/counters.h"

#include <inttypes.h>
#include <stdio.h>

#include "handlers/lease_reply.h"
#include "handlers/routes.h"
#include "server/http/problem.h"
#include "server/http/request.h"

struct lease_request *counter_request_new(struct http_request *http, enum object_kind kind)
{
    struct lease_request *request = lease_request_new(http, kind);

    return lease_request_name(request) ? request : NULL;
}

/* --- PUT and DELETE ----------------------------------------------------------------------- */

struct put_fields {
    struct field_integer number;
};

void counter_put(struct http_request *http, enum object_kind kind, const char *field,
                 int64_t max, counter_done *done)
{
    const struct field put_fields[] = {
        {field, FIELD_INTEGER, offsetof(struct put_fields, number), 1, max}};
    struct lease_request *request = counter_request_new(http, kind);
    struct put_fields fields = {0};

    if (request == NULL || !request_fields(http, put_fields, 1, &fields))
        return;
    if (!fields.number.given)
        problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL, "%s: this request needs the field",
                      field);
    else
        counter_create(request->context->store, kind, lease_name(&request->lease),
                       fields.number.value, done, request);
}

void counter_reply_put(struct lease_request *request, const char *member,
                       const struct counter_result *result)
{
    bool is_new = result->outcome == COUNTER_CREATED;

    if (!is_new && result->outcome != COUNTER_EXISTS) {
        counter_reply_failure(request, result);
        return;
    }
    json_t *body = counter_json(request);
    json_object_set_new(body, member, json_integer(result->value));
    json_object_set_new(body, "created", json_boolean(is_new));
    http_reply_json(request->http, is_new ? 201 : 200, body);
}

static void on_deleted(void *arg, const struct counter_result *result)
{
    struct lease_request *request = arg;
    bool is_deleted = result->outcome == COUNTER_DELETED;

    if (!is_deleted && result->outcome != COUNTER_MISSING) {
        counter_reply_failure(request, result);
        return;
    }
    json_t *body = counter_json(request);
    json_object_set_new(body, "deleted", json_boolean(is_deleted));
    http_reply_json(request->http, 200, body);
}

void counters_delete(struct http_request *http)
{
    enum object_kind kind = http_subject(http);
    struct lease_request *request = counter_request_new(http, kind);

    if (request == NULL || !request_no_fields(http))
        return;
    http_log_audit(http);
    counter_delete(request->context->store, kind, lease_name(&request->lease), on_deleted,
                   request);
}

/* --- answers ------------------------------------------------------------------------------ */

json_t *counter_json(const struct lease_request *request)
{
    return json_pack("{s:s}", kind_row(request->lease.kind)->member,
                     lease_name(&request->lease));
}

void counter_reply_busy(struct lease_request *request, int64_t available, const char *detail)
{
    json_t *body = counter_json(request);

    reply_retry_after(request->http, body, -1);
    json_object_set_new(body, "available", json_integer(available));
    problem_reply(request->http, PROBLEM_LOCKED, body, "%s", detail);
}

/* Of a request without a key: a release or count-down would be done twice, but a GET, PUT or
 * DELETE does the same again. */
static void reply_unknown_without_key(struct lease_request *request, enum call_outcome failure)
{
    json_t *members = json_pack("{s:s}", "outcome", "unknown");
    const char *why = "Redis did not answer";

    if (failure == CALL_NOT_REPLICATED) {
        json_object_set_new(members, "reason", json_string("not-replicated"));
        why = "too few replicas have confirmed the change, which a failover may undo";
    }
    problem_reply(request->http, PROBLEM_REDIS_UNAVAILABLE, members, "%s; %s", why,
                  request->lease.unrepeatable
                      ? "only requests with an Idempotency-Key are safe to repeat"
                      : "the same request may be repeated");
}

static void reply_unknown(struct lease_request *request, enum call_outcome failure)
{
    if (request->lease.id[0] != '\0')
        reply_unavailable(request->http, failure);
    else
        reply_unknown_without_key(request, failure);
}

static void reply_failed(struct lease_request *request, enum call_outcome failure)
{
    if (call_is_unknown(failure))
        reply_unknown(request, failure);
    else
        reply_unavailable(request->http, failure);
}

void counter_reply_failure(struct lease_request *request, const struct counter_result *result)
{
    struct http_request *http = request->http;

    switch (result->outcome) {
    case COUNTER_BUSY:
        counter_reply_busy(request, result->value, "there are not enough free permits");
        return;
    case COUNTER_MISSING:
        problem_reply(http, PROBLEM_NOT_FOUND, counter_json(request),
                      "there is no such semaphore");
        return;
    case COUNTER_TOO_LARGE:
        problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "permits: the semaphore has %" PRId64 " and may have up to %" PRId64,
                      result->value, COUNTER_MAX);
        return;
    case COUNTER_TOO_MANY:
        problem_reply(http, PROBLEM_TOO_MANY_WAITERS, NULL,
                      "too many requests wait for this %s already",
                      kind_row(request->lease.kind)->member);
        return;
    case COUNTER_REUSED:
        problem_reply(http, PROBLEM_TOKEN_REUSED, NULL,
                      "Idempotency-Key: this key was used for another request: use a new key");
        return;
    case COUNTER_WRONG_KIND:
        problem_reply(http, PROBLEM_WRONG_KIND, NULL,
                      "this name is in use in Redis as another kind of object");
        return;
    case COUNTER_FAILED:
        reply_failed(request, result->failure);
        return;
    case COUNTER_CREATED:
    case COUNTER_EXISTS:
    case COUNTER_DELETED:
    case COUNTER_SHOWN:
    case COUNTER_GRANTED:
    case COUNTER_RELEASED:
    case COUNTER_REPLAYED:
        break; /* no failures */
    }
    reply_unknown(request, CALL_UNKNOWN);
}

void counter_reply_not_acquired(struct lease_request *request,
                                const struct acquire_result *result)
{
    if (result->counter != NULL)
        counter_reply_failure(request, result->counter);
    else if (result->outcome == TRY_UNKNOWN)
        reply_unknown(request, CALL_UNKNOWN);
    else
        lease_reply_not_acquired(request, result->outcome);
}
