/* /v1/semaphores/{name}: permits without leases, Redisson's RSemaphore. */
#include <stdlib.h>

#include "handlers/counters.h"
#include "handlers/routes.h"
#include "server/request.h"

struct acquire_fields {
    struct field_integer permits, wait_ms;
};

static const struct field acquire_fields[] = {
    {"permits", FIELD_INTEGER, offsetof(struct acquire_fields, permits), 1, PERMITS_MAX},
    {"wait_ms", FIELD_INTEGER, offsetof(struct acquire_fields, wait_ms), 0, INT64_MAX},
};

static void reply_available(struct counter_request *counter, int status,
                            const struct lock_result *result)
{
    json_t *body = counter_json(counter);

    json_object_set_new(body, "available", json_integer(result->value));
    if (result->outcome == LOCK_LOOKED)
        json_object_set_new(body, "waiter_count",
                            json_integer((json_int_t)result->waiter_count));
    http_reply_json(counter->request, status, body);
}

/* {"semaphore": …, "state": …, "permits": n, "available": n} */
static void reply_moved(struct counter_request *counter, const char *state,
                        const struct lock_result *result)
{
    json_t *body = counter_json(counter);

    json_object_set_new(body, "state", json_string(state));
    json_object_set_new(body, "permits", json_integer(result->permits));
    json_object_set_new(body, "available", json_integer(result->value));
    http_reply_json(counter->request, 200, body);
}

/* --- PUT, GET, DELETE --------------------------------------------------------------------- */

static void on_put(void *arg, const struct lock_result *result)
{
    if (result->outcome == LOCK_GRANTED || result->outcome == LOCK_HELD)
        reply_available(arg, result->outcome == LOCK_GRANTED ? 201 : 200, result);
    else
        counter_reply_failure(arg, result);
}

void semaphores_put(struct http_request *request)
{
    counter_put(request, COUNTER_SEMAPHORE, "permits", PERMITS_MAX, on_put);
}

static void on_looked(void *arg, const struct lock_result *result)
{
    if (result->outcome == LOCK_LOOKED)
        reply_available(arg, 200, result);
    else
        counter_reply_failure(arg, result);
}

void semaphores_get(struct http_request *request)
{
    struct counter_request *counter = counter_request_new(request, COUNTER_SEMAPHORE);

    if (counter == NULL)
        return;
    if (!request_no_fields(request)) {
        free(counter);
        return;
    }
    counter_watch(counter);
    semaphore_look(counter->service->store, counter->lease.name, on_looked, counter);
}

void semaphores_delete(struct http_request *request)
{
    counter_delete_request(request, COUNTER_SEMAPHORE);
}

/* --- acquire and drain -------------------------------------------------------------------- */

static void on_acquired(struct counter_request *counter, const struct lock_result *result)
{
    if (result->outcome == LOCK_GRANTED || result->outcome == LOCK_HELD)
        reply_moved(counter, "acquired", result);
    else
        counter_reply_failure(counter, result);
}

void semaphores_acquire(struct http_request *request)
{
    struct counter_request *counter = counter_request_new(request, COUNTER_SEMAPHORE);
    struct acquire_fields fields = {0};

    if (counter == NULL)
        return;
    if (!counter_read_key(counter, true) ||
        !request_fields(request, acquire_fields, 2, &fields) ||
        !request_at_most(request, "wait_ms", &fields.wait_ms,
                         counter->service->shared->config->max_wait_ms)) {
        free(counter);
        return;
    }
    counter->lease.object = &semaphore_object;
    counter->lease.permits = fields.permits.given ? fields.permits.value : 1;
    counter->acquired = on_acquired;
    counter_acquire(counter, locks_wait_ms(request, &fields.wait_ms));
}

static void on_drained(void *arg, const struct lock_result *result)
{
    struct counter_request *counter = arg;

    counter->granted = result->outcome == LOCK_GRANTED;
    if (counter->granted || result->outcome == LOCK_HELD)
        reply_moved(counter, "drained", result);
    else
        counter_reply_failure(counter, result);
}

void semaphores_drain(struct http_request *request)
{
    struct counter_request *counter = counter_request_new(request, COUNTER_SEMAPHORE);

    if (counter == NULL)
        return;
    if (!counter_read_key(counter, true) || !request_no_fields(request)) {
        free(counter);
        return;
    }
    counter->withdraw = semaphore_withdraw;
    counter_watch(counter);
    semaphore_drain(counter->service->store, &counter->lease, on_drained, counter);
}

/* --- release ------------------------------------------------------------------------------ */

static void on_released(void *arg, const struct lock_result *result)
{
    if (result->outcome == LOCK_RELEASED || result->outcome == LOCK_HELD)
        reply_moved(arg, "released", result);
    else
        counter_reply_failure(arg, result);
}

void semaphores_release(struct http_request *request)
{
    struct counter_request *counter = counter_request_new(request, COUNTER_SEMAPHORE);
    struct acquire_fields fields = {0};

    if (counter == NULL)
        return;
    if (!counter_read_key(counter, false) ||
        !request_fields(request, acquire_fields, 1, &fields)) {
        free(counter);
        return;
    }
    counter->lease.permits = fields.permits.given ? fields.permits.value : 1;
    counter_watch(counter);
    semaphore_release(counter->service->store, &counter->lease, on_released, counter);
}
