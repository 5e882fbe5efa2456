/* PUT, PATCH and DELETE /v1/permit-semaphores/{name}/permit: one permit, held by a lease. */
#include <stdlib.h>

#include "handlers/counters.h"
#include "handlers/routes.h"
#include "server/request.h"
#include "storage/permit_store.h"

struct permit_fields {
    struct field_integer ttl_ms, wait_ms;
};

/* PATCH takes the first only. */
static const struct field permit_fields[] = {
    {"ttl_ms", FIELD_INTEGER, offsetof(struct permit_fields, ttl_ms), 100, 86400000},
    {"wait_ms", FIELD_INTEGER, offsetof(struct permit_fields, wait_ms), 0, INT64_MAX},
};

/* With the lease of the token. NULL: refused. */
static struct counter_request *permit_request_new(struct http_request *request)
{
    struct counter_request *permit = counter_request_new(request, COUNTER_PERMIT_SEMAPHORE);
    char token[37];

    if (permit == NULL)
        return NULL;
    permit->lease.object = &permit_object;
    permit->lease.permits = 1;
    if (locks_read_lease(request, true, &permit->lease, token))
        return permit;
    free(permit);
    return NULL;
}

static void reply_hold(struct counter_request *permit, int status,
                       const struct lock_result *result)
{
    const struct lease *lease = &permit->lease;
    bool is_new = result->outcome == LOCK_GRANTED;
    const char *session_id = is_new ? lease->session_id : result->session_id;
    json_t *body = counter_json(permit);

    json_object_set_new(body, "state", json_string("held"));
    json_object_set_new(body, "lease_id", json_string(lease->id));
    if (session_id[0] != '\0')
        json_object_set_new(body, "session_id", json_string(session_id));
    json_object_set_new(body, "ttl_ms", json_integer(result->ttl_ms));
    json_object_set_new(body, "remaining_ms", json_integer(result->remaining_ms));
    json_object_set_new(body, "watchdog",
                        json_boolean(is_new ? lease->watchdog : result->watchdog));
    json_object_set_new(body, "available", json_integer(result->hold_count));
    http_reply_json(permit->request, status, body);
}

static void on_acquired(struct counter_request *permit, const struct lock_result *result)
{
    if (result->outcome == LOCK_GRANTED)
        reply_hold(permit, 201, result);
    else if (result->outcome == LOCK_HELD)
        reply_hold(permit, 200, result);
    else
        counter_reply_failure(permit, result);
}

void permits_put(struct http_request *request)
{
    struct counter_request *permit = permit_request_new(request);
    struct permit_fields fields = {0};

    if (permit == NULL)
        return;
    const struct config *config = permit->service->shared->config;
    if (!locks_read_session(request, &permit->lease) ||
        !request_fields(request, permit_fields, 2, &fields) ||
        !request_at_most(request, "wait_ms", &fields.wait_ms, config->max_wait_ms)) {
        free(permit);
        return;
    }
    permit->lease.watchdog = permit->lease.session_id[0] != '\0' && !fields.ttl_ms.given;
    permit->lease.ttl_ms = fields.ttl_ms.given ? fields.ttl_ms.value
                                               : config->watchdog_timeout_ms;
    permit->acquired = on_acquired;
    counter_acquire(permit, locks_wait_ms(request, &fields.wait_ms));
}

static void on_renewed(void *arg, const struct lock_result *result)
{
    struct counter_request *permit = arg;

    if (result->outcome != LOCK_HELD) {
        counter_reply_failure(permit, result);
        return;
    }
    struct lock_result renewed = *result;
    renewed.ttl_ms = permit->lease.ttl_ms;
    metrics_add(&permit->service->metrics, METRIC_RENEWALS, 1);
    reply_hold(permit, 200, &renewed);
}

void permits_patch(struct http_request *request)
{
    struct counter_request *permit = permit_request_new(request);
    struct permit_fields fields = {0};

    if (permit == NULL)
        return;
    if (!request_fields(request, permit_fields, 1, &fields)) {
        free(permit);
        return;
    }
    permit->lease.watchdog = !fields.ttl_ms.given; /* if it has a session */
    permit->lease.ttl_ms = fields.ttl_ms.given
                               ? fields.ttl_ms.value
                               : permit->service->shared->config->watchdog_timeout_ms;
    counter_watch(permit);
    permit_renew(permit->service->store, &permit->lease, on_renewed, permit);
}

static void on_released(void *arg, const struct lock_result *result)
{
    struct counter_request *permit = arg;

    if (result->outcome != LOCK_RELEASED) {
        counter_reply_failure(permit, result);
        return;
    }
    json_t *body = counter_json(permit);
    json_object_set_new(body, "lease_id", json_string(permit->lease.id));
    json_object_set_new(body, "state", json_string("released"));
    http_reply_json(permit->request, 200, body);
}

void permits_delete(struct http_request *request)
{
    struct counter_request *permit = permit_request_new(request);

    if (permit == NULL)
        return;
    if (!request_no_fields(request)) {
        free(permit);
        return;
    }
    counter_watch(permit);
    permit_release(permit->service->store, &permit->lease, on_released, permit);
}
