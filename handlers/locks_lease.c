/* PATCH and DELETE /v1/locks/{name}: renew a lease, release it. */
#include "handlers/locks.h"
#include "handlers/routes.h"
#include "server/request.h"

struct renew_fields {
    struct field_integer ttl_ms;
};

static const struct field renew_fields[] = {
    {"ttl_ms", FIELD_INTEGER, offsetof(struct renew_fields, ttl_ms), 100, 86400000},
};

/* One request about a lease while Redis is asked. */
struct lease_request {
    struct service *service;
    struct http_request *request;
    struct lease lease;
};

static struct lease_request *lease_request_new(struct http_request *request)
{
    struct lease_request *lease_request = http_memory(request, sizeof(*lease_request));
    char token[37];

    lease_request->service = http_service(request);
    lease_request->request = request;
    return locks_read_lease(request, true, &lease_request->lease, token) ? lease_request : NULL;
}

static void on_described(void *arg, const struct lock_result *result)
{
    struct lease_request *lease_request = arg;

    locks_reply_busy(lease_request->request, &lease_request->lease, result);
}

static void on_renewed(void *arg, const struct lock_result *result)
{
    struct lease_request *lease_request = arg;

    if (result->outcome == LOCK_BUSY) {
        locks_describe_holder(lease_request->service, &lease_request->lease, result,
                              on_described, lease_request);
        return;
    }
    if (result->outcome == LOCK_HELD) {
        struct lock_result renewed = *result;
        renewed.ttl_ms = lease_request->lease.ttl_ms;
        metrics_add(&lease_request->service->metrics, METRIC_RENEWALS, 1);
        locks_reply_hold(lease_request->request, 200, &lease_request->lease, &renewed, NULL);
    } else {
        locks_reply_failure(lease_request->request, &lease_request->lease, result);
    }
}

void locks_patch(struct http_request *request)
{
    struct renew_fields fields = {0};
    struct lease_request *lease_request = lease_request_new(request);

    if (lease_request == NULL)
        return;
    if (!request_fields(request, renew_fields, 1, &fields))
        return;
    lease_request->lease.watchdog = !fields.ttl_ms.given; /* if it has a session */
    lease_request->lease.ttl_ms =
        fields.ttl_ms.given ? fields.ttl_ms.value
                            : lease_request->service->shared->config->watchdog_timeout_ms;
    lock_renew(lease_request->service->store, &lease_request->lease, on_renewed, lease_request);
}

static void on_released(void *arg, const struct lock_result *result)
{
    struct lease_request *lease_request = arg;
    const struct lease *lease = &lease_request->lease;

    if (result->outcome == LOCK_RELEASED) {
        struct json_text body;
        json_text_begin(&body);
        json_text_string(&body, "lock", lease->name);
        json_text_string(&body, "lease_id", lease->id);
        json_text_string(&body, "state", "released");
        json_text_integer(&body, "hold_count", result->hold_count);
        http_reply_written(lease_request->request, 200, &body);
    } else {
        locks_reply_failure(lease_request->request, lease, result);
    }
}

void locks_delete(struct http_request *request)
{
    struct lease_request *lease_request = lease_request_new(request);

    if (lease_request != NULL && request_no_fields(request))
        lock_release(lease_request->service->store, &lease_request->lease, on_released,
                     lease_request);
}
