/* /v1/latches/{name}: count-down latches, Redisson's RCountDownLatch. */
#include <stdlib.h>

#include "handlers/counters.h"
#include "handlers/routes.h"
#include "server/request.h"

static void reply_count(struct counter_request *counter, int status, int64_t count)
{
    json_t *body = counter_json(counter);

    json_object_set_new(body, "count", json_integer(count));
    http_reply_json(counter->request, status, body);
}

static void on_put(void *arg, const struct lock_result *result)
{
    if (result->outcome == LOCK_GRANTED || result->outcome == LOCK_HELD)
        reply_count(arg, result->outcome == LOCK_GRANTED ? 201 : 200, result->value);
    else
        counter_reply_failure(arg, result);
}

void latches_put(struct http_request *request)
{
    counter_put(request, COUNTER_LATCH, "count", COUNTER_MAX, on_put);
}

void latches_delete(struct http_request *request)
{
    counter_delete_request(request, COUNTER_LATCH);
}

/* --- GET ---------------------------------------------------------------------------------- */

struct await_fields {
    struct field_integer wait_ms;
};

static const struct field await_fields[] = {
    {"wait_ms", FIELD_INTEGER, offsetof(struct await_fields, wait_ms), 0, INT64_MAX},
};

static void on_awaited(struct counter_request *counter, const struct lock_result *result)
{
    if (result->outcome != LOCK_GRANTED && result->outcome != LOCK_BUSY) {
        counter_reply_failure(counter, result);
        return;
    }
    counter->granted = false; /* nothing was taken */
    json_t *body = counter_json(counter);
    json_object_set_new(body, "count", json_integer(result->value));
    json_object_set_new(body, "waiter_count", json_integer((json_int_t)result->waiter_count));
    http_reply_json(counter->request, 200, body);
}

void latches_get(struct http_request *request)
{
    struct counter_request *counter = counter_request_new(request, COUNTER_LATCH);
    struct await_fields fields = {0};

    if (counter == NULL)
        return;
    if (!request_fields(request, await_fields, 1, &fields) ||
        !request_at_most(request, "wait_ms", &fields.wait_ms,
                         counter->service->shared->config->max_wait_ms)) {
        free(counter);
        return;
    }
    counter->lease.object = &latch_object;
    counter->acquired = on_awaited;
    counter_acquire(counter, locks_wait_ms(request, &fields.wait_ms));
}

/* --- count-down --------------------------------------------------------------------------- */

static void on_counted(void *arg, const struct lock_result *result)
{
    if (result->outcome == LOCK_RELEASED || result->outcome == LOCK_HELD)
        reply_count(arg, 200, result->value);
    else
        counter_reply_failure(arg, result);
}

void latches_count_down(struct http_request *request)
{
    struct counter_request *counter = counter_request_new(request, COUNTER_LATCH);

    if (counter == NULL)
        return;
    if (!counter_read_key(counter, false) || !request_no_fields(request)) {
        free(counter);
        return;
    }
    counter_watch(counter);
    latch_count_down(counter->service->store, &counter->lease, on_counted, counter);
}
