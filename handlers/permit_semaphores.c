/* /v1/permit-semaphores/{name}: semaphores whose permits are leases, Redisson's
 * RPermitExpirableSemaphore. The permits themselves: permits.c. */
#include <stdlib.h>

#include "handlers/counters.h"
#include "handlers/routes.h"
#include "storage/permit_store.h"

static json_t *permit_json(const struct permit_view *permit)
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
    return json;
}

static void reply_view(struct counter_request *counter, int status,
                       const struct permits_view *view)
{
    json_t *body = counter_json(counter);
    json_t *holders = json_array();

    for (size_t i = 0; i < view->shown; i++)
        json_array_append_new(holders, permit_json(&view->permits[i]));
    json_object_set_new(body, "permits", json_integer(view->free_count + view->held_count));
    json_object_set_new(body, "available", json_integer(view->free_count));
    json_object_set_new(body, "holder_count", json_integer(view->held_count));
    json_object_set_new(body, "holders", holders);
    json_object_set_new(body, "waiter_count", json_integer((json_int_t)view->waiter_count));
    http_reply_json(counter->request, status, body);
}

static void look_ended(struct counter_request *counter, int status,
                       const struct permits_view *view)
{
    const struct lock_result failure = {.outcome = view->outcome};

    if (view->outcome == LOCK_LOOKED)
        reply_view(counter, status, view);
    else
        counter_reply_failure(counter, &failure);
}

static void on_looked(void *arg, const struct permits_view *view)
{
    look_ended(arg, 200, view);
}

static void on_created_looked(void *arg, const struct permits_view *view)
{
    look_ended(arg, 201, view);
}

static void on_put(void *arg, const struct lock_result *result)
{
    struct counter_request *counter = arg;
    bool is_new = result->outcome == LOCK_GRANTED;

    if (!is_new && result->outcome != LOCK_HELD) {
        counter_reply_failure(counter, result);
        return;
    }
    permits_look(counter->service->store, counter->lease.name,
                 is_new ? on_created_looked : on_looked, counter);
}

void permit_semaphores_put(struct http_request *request)
{
    counter_put(request, COUNTER_PERMIT_SEMAPHORE, "permits", PERMITS_MAX, on_put);
}

void permit_semaphores_get(struct http_request *request)
{
    struct counter_request *counter = counter_request_new(request, COUNTER_PERMIT_SEMAPHORE);

    if (counter == NULL)
        return;
    if (!request_no_fields(request)) {
        free(counter);
        return;
    }
    counter_watch(counter);
    permits_look(counter->service->store, counter->lease.name, on_looked, counter);
}

void permit_semaphores_delete(struct http_request *request)
{
    counter_delete_request(request, COUNTER_PERMIT_SEMAPHORE);
}
