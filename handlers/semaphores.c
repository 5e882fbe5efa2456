/* /v1/semaphores/{name}: permits without leases, Redisson's RSemaphore. */
#include "handlers/counters.h"
#include "handlers/routes.h"
#include "server/http/request.h"
#include "storage/lease/withdraw.h"

/* {"semaphore": …, "available": n} */
static json_t *available_json(const struct lease_request *request,
                              const struct counter_result *result)
{
    json_t *body = counter_json(request);

    json_object_set_new(body, "available", json_integer(result->value));
    return body;
}

/* {"semaphore": …, "state": …, "permits": n, "available": n} */
static void reply_moved(struct lease_request *request, const char *state,
                        const struct counter_result *result)
{
    json_t *body = available_json(request, result);

    json_object_set_new(body, "state", json_string(state));
    json_object_set_new(body, "permits", json_integer(result->permits));
    http_reply_json(request->http, 200, body);
}

/* --- PUT, GET, DELETE --------------------------------------------------------------------- */

static void on_put(void *arg, const struct counter_result *result)
{
    counter_reply_put(arg, "available", result);
}

void semaphores_put(struct http_request *http)
{
    counter_put(http, KIND_SEMAPHORE, "permits", PERMITS_MAX, on_put);
}

static void on_got(void *arg, const struct counter_result *result)
{
    struct lease_request *request = arg;

    if (result->outcome != COUNTER_SHOWN) {
        counter_reply_failure(request, result);
        return;
    }
    json_t *body = available_json(request, result);
    json_object_set_new(body, "waiter_count", json_integer((json_int_t)result->waiter_count));
    http_reply_json(request->http, 200, body);
}

void semaphores_get(struct http_request *http)
{
    struct lease_request *request = counter_request_new(http, KIND_SEMAPHORE);

    if (request != NULL && request_no_fields(http))
        semaphore_get(request->context->store, lease_name(&request->lease), on_got, request);
}

/* --- acquire and drain -------------------------------------------------------------------- */

/* Whether a semaphore without a free permit exists at all. */
static void on_busy_got(void *arg, const struct counter_result *result)
{
    if (result->outcome == COUNTER_MISSING)
        counter_reply_busy(arg, 0, "there is no such semaphore yet: PUT makes it");
    else
        counter_reply_busy(arg, 0, "there are not enough free permits");
}

static void on_acquired(struct lease_request *request, const struct acquire_result *result)
{
    const struct counter_result *counter = result->counter;

    if (result->outcome == TRY_GRANTED || result->outcome == TRY_CONFIRMED)
        reply_moved(request, "acquired", counter);
    else if (counter != NULL && counter->outcome == COUNTER_BUSY && counter->value == 0)
        semaphore_get(request->context->store, lease_name(&request->lease), on_busy_got,
                      request);
    else
        counter_reply_not_acquired(request, result);
}

void semaphores_acquire(struct http_request *http)
{
    struct lease_request *request = counter_request_new(http, KIND_SEMAPHORE);
    struct lease_fields fields = {0};

    if (request == NULL || !lease_request_key(request, true) ||
        !lease_request_fields(request, LEASE_FIELD_PERMITS, LEASE_FIELD_WAIT, &fields))
        return;
    request->lease.permits = fields.permits.given ? fields.permits.value : 1;
    lease_request_acquire(request, &fields.wait_ms, on_acquired);
}

static void on_drained(void *arg, const struct counter_result *result)
{
    struct lease_request *request = arg;

    request->granted = result->outcome == COUNTER_GRANTED;
    /* As an acquisition: nobody is told of the permits, and without a key nobody can ask. */
    if (result->outcome == COUNTER_FAILED && call_is_unknown(result->failure))
        lease_withdraw(request->context->store, &request->lease, WITHDRAW_PLACE);
    if (request->granted || result->outcome == COUNTER_REPLAYED)
        reply_moved(request, "drained", result);
    else
        counter_reply_failure(request, result);
}

void semaphores_drain(struct http_request *http)
{
    struct lease_request *request = counter_request_new(http, KIND_SEMAPHORE);

    if (request != NULL && lease_request_key(request, true) && request_no_fields(http))
        semaphore_drain(request->context->store, &request->lease, on_drained, request);
}

/* --- release ------------------------------------------------------------------------------ */

static void on_released(void *arg, const struct counter_result *result)
{
    if (result->outcome == COUNTER_RELEASED || result->outcome == COUNTER_REPLAYED)
        reply_moved(arg, "released", result);
    else
        counter_reply_failure(arg, result);
}

void semaphores_release(struct http_request *http)
{
    struct lease_request *request = counter_request_new(http, KIND_SEMAPHORE);
    struct lease_fields fields = {0};

    if (request == NULL || !lease_request_key(request, false) ||
        !lease_request_fields(request, LEASE_FIELD_CREATE, LEASE_FIELD_PERMITS, &fields))
        return;
    request->lease.permits = fields.permits.given ? fields.permits.value : 1;
    semaphore_release(request->context->store, &request->lease, fields.create.value,
                      on_released, request);
}
