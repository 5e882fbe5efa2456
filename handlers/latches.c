/* /v1/latches/{name}: count-down latches, Redisson's RCountDownLatch. */
#include "handlers/counters.h"
#include "handlers/routes.h"
#include "server/http/request.h"

static void reply_count(struct lease_request *request, int64_t count)
{
    json_t *body = counter_json(request);

    json_object_set_new(body, "count", json_integer(count));
    http_reply_json(request->http, 200, body);
}

static void on_put(void *arg, const struct counter_result *result)
{
    counter_reply_put(arg, "count", result);
}

void latches_put(struct http_request *http)
{
    counter_put(http, KIND_LATCH, "count", COUNTER_MAX, on_put);
}

/* --- GET ---------------------------------------------------------------------------------- */

/* A latch that is still closed at the deadline is an answer like any other. */
static void on_awaited(struct lease_request *request, const struct acquire_result *result)
{
    request->granted = false; /* nothing was taken */
    if (result->outcome != TRY_GRANTED && result->outcome != TRY_BUSY) {
        counter_reply_not_acquired(request, result);
        return;
    }
    json_t *body = counter_json(request);
    json_object_set_new(body, "count", json_integer(result->counter->value));
    json_object_set_new(body, "exists", json_boolean(result->outcome == TRY_BUSY));
    json_object_set_new(body, "waiter_count",
                        json_integer((json_int_t)result->counter->waiter_count));
    http_reply_json(request->http, 200, body);
}

void latches_get(struct http_request *http)
{
    struct lease_request *request = counter_request_new(http, KIND_LATCH);
    struct lease_fields fields = {0};

    if (request == NULL ||
        !lease_request_fields(request, LEASE_FIELD_WAIT, LEASE_FIELD_WAIT, &fields))
        return;
    store_attempt_id(request->context->store, request->lease.attempt);
    lease_request_acquire(request, &fields.wait_ms, on_awaited);
}

/* --- count-down --------------------------------------------------------------------------- */

static void on_counted(void *arg, const struct counter_result *result)
{
    if (result->outcome == COUNTER_RELEASED || result->outcome == COUNTER_REPLAYED)
        reply_count(arg, result->value);
    else
        counter_reply_failure(arg, result);
}

void latches_count_down(struct http_request *http)
{
    struct lease_request *request = counter_request_new(http, KIND_LATCH);

    if (request != NULL && lease_request_key(request, false) && request_no_fields(http))
        latch_count_down(request->context->store, &request->lease, on_counted, request);
}
