/* /v1/permit-semaphores/{name}: semaphores whose permits are leases, Redisson's
 * RPermitExpirableSemaphore. The permits themselves: leases_acquire.c, leases_change.c. */
#include "handlers/counters.h"
#include "handlers/holders.h"
#include "handlers/routes.h"
#include "storage/look/permits_get.h"

static json_t *permit_json(const struct handler_context *context,
                           const struct permit_view *permit)
{
    json_t *json = json_object();

    if (permit->lease_id[0] != '\0')
        json_object_set_new(json, "lease_id", json_string(permit->lease_id));
    else
        json_object_set_new(json, "redisson_permit", json_string(permit->permit_id));
    if (permit->session_id[0] != '\0')
        json_object_set_new(json, "session_id", json_string(permit->session_id));
    if (permit->remaining_ms >= 0)
        json_object_set_new(json, "remaining_ms", json_integer(permit->remaining_ms));
    if (permit->note[0] != '\0')
        json_object_set_new(json, "note", json_string(permit->note));
    holder_add_caller(json, permit->caller);
    holder_add_held(json, store_held_ms(context->store, permit->granted_us));
    return json;
}

static void reply_view(struct lease_request *request, int status, bool is_put,
                       const struct permits_view *view)
{
    json_t *body = counter_json(request);
    json_t *holders = json_array();

    for (size_t i = 0; i < view->shown; i++)
        json_array_append_new(holders, permit_json(request->context, &view->permits[i]));
    json_object_set_new(body, "permits", json_integer(view->free_count + view->held_count));
    json_object_set_new(body, "available", json_integer(view->free_count));
    json_object_set_new(body, "holder_count", json_integer(view->held_count));
    json_object_set_new(body, "holders", holders);
    json_object_set_new(body, "waiter_count", json_integer((json_int_t)view->waiter_count));
    if (is_put)
        json_object_set_new(body, "created", json_boolean(status == 201));
    http_reply_json(request->http, status, body);
}

/* With 201 the semaphore was made, so a look that fails leaves the outcome unknown. */
static void reply_got(struct lease_request *request, int status, bool is_put,
                      const struct permits_view *view)
{
    const struct counter_result failure = {
        .outcome = view->outcome, .failure = status == 201 ? CALL_UNKNOWN : view->failure};

    if (view->outcome == COUNTER_SHOWN)
        reply_view(request, status, is_put, view);
    else
        counter_reply_failure(request, &failure);
}

static void on_got(void *arg, const struct permits_view *view)
{
    reply_got(arg, 200, false, view);
}

static void on_created_got(void *arg, const struct permits_view *view)
{
    reply_got(arg, 201, true, view);
}

static void on_existing_got(void *arg, const struct permits_view *view)
{
    reply_got(arg, 200, true, view);
}

static void on_put(void *arg, const struct counter_result *result)
{
    struct lease_request *request = arg;
    bool is_new = result->outcome == COUNTER_CREATED;

    if (is_new || result->outcome == COUNTER_EXISTS)
        permits_get(request->context->store, lease_name(&request->lease), PERMITS_SHOWN,
                    is_new ? on_created_got : on_existing_got, request);
    else
        counter_reply_failure(request, result);
}

void permit_semaphores_put(struct http_request *http)
{
    counter_put(http, KIND_PERMIT, "permits", PERMITS_MAX, on_put);
}

void permit_semaphores_get(struct http_request *http)
{
    struct lease_request *request = counter_request_new(http, KIND_PERMIT);

    if (request != NULL && request_no_fields(http))
        permits_get(request->context->store, lease_name(&request->lease), PERMITS_SHOWN, on_got,
                    request);
}
