/* PATCH and DELETE of a lease: renew it, release it. Of locks, sets of locks and permits; and
 * GET of a set. */
#include "handlers/lease_reply.h"
#include "handlers/lease_request.h"
#include "handlers/multi_locks.h"
#include "handlers/routes.h"
#include "storage/lease/leases.h"
#include "storage/notes/set_names.h"

/* --- the names of a set ------------------------------------------------------------------- */

static void reply_names_unknown(struct lease_request *request)
{
    static const struct lease_result unknown = {
        .outcome = LEASE_ENDED, .remaining_ms = -1, .reason = "unknown"};

    lease_reply_failure(request, &unknown);
}

static void on_named(void *arg, const struct set_names *found)
{
    struct lease_request *request = arg;
    struct lease *lease = &request->lease;

    switch (found->outcome) {
    case SET_NAMES_KEPT:
        lease->names = lock_names_ref(found->names);
        http_log_json(request->http, "locks", multi_locks_names_json(lease->names));
        if (multi_locks_check_right(request->http, lease->names))
            request->send(request);
        return;
    case SET_NAMES_UNKNOWN:
    case SET_NAMES_REUSED:
    case SET_NAMES_SPENT:
        reply_names_unknown(request);
        return;
    case SET_NAMES_FAILED:
        reply_unavailable(request->http, found->failure);
        return;
    }
}

/* The names of a set are found by its token. They never change for one token. `spend`: see
 * set_names_find(). */
static void start(struct lease_request *request, bool spend,
                  void (*send)(struct lease_request *request))
{
    request->send = send;
    if (lease_is_set(&request->lease))
        set_names_find(request->context->store, request->lease.id, spend, on_named, request);
    else
        send(request);
}

/* NULL: refused. */
static struct lease_request *read_lease(struct http_request *http)
{
    struct lease_request *request = lease_request_new(http, http_subject(http));

    if (!lease_is_set(&request->lease) && !lease_request_name(request))
        return NULL;
    return lease_request_token(request, true) ? request : NULL;
}

/* --- renew -------------------------------------------------------------------------------- */

static void on_renewed(void *arg, const struct lease_result *result)
{
    struct lease_request *request = arg;

    if (result->outcome == LEASE_HELD) {
        metrics_add(request->context->metrics, METRIC_RENEWALS, 1);
        lease_reply_hold(request, 200, result);
    } else {
        lease_reply_failure(request, result);
    }
}

static void send_renew(struct lease_request *request)
{
    lease_renew(request->context->store, &request->lease, on_renewed, request);
}

void leases_patch(struct http_request *http)
{
    struct lease_request *request = read_lease(http);
    struct lease_fields fields = {0};

    if (request == NULL ||
        !lease_request_fields(request, LEASE_FIELD_TTL, LEASE_FIELD_TTL, &fields))
        return;
    /* The watchdog renews the lease from now on, if it has a session. */
    if (lease_request_set_ttl(request, &fields.ttl_ms, true))
        start(request, false, send_renew);
}

/* --- release ------------------------------------------------------------------------------ */

static void on_released(void *arg, const struct lease_result *result)
{
    struct lease_request *request = arg;

    if (result->outcome == LEASE_RELEASED)
        lease_reply_released(request, result);
    else
        lease_reply_failure(request, result);
}

void lease_request_release(struct lease_request *request)
{
    struct handler_context *context = request->context;

    if (!acquire_hand_over(context->acquirer, &request->lease, on_released, request))
        lease_release(context->store, &request->lease, on_released, request);
}

void leases_delete(struct http_request *http)
{
    struct lease_request *request = read_lease(http);

    if (request != NULL && request_no_fields(http))
        start(request, true, lease_request_release);
}

/* --- get a set ---------------------------------------------------------------------------- */

static void on_got(void *arg, const struct lease_result *result)
{
    struct lease_request *request = arg;

    if (result->outcome == LEASE_HELD)
        lease_reply_hold(request, 200, result);
    else if (result->outcome == LEASE_BUSY)
        lease_reply_waiting(request);
    else
        lease_reply_failure(request, result);
}

static void send_get(struct lease_request *request)
{
    lease_get_set(request->context->store, &request->lease, on_got, request);
}

void multi_locks_get(struct http_request *http)
{
    struct lease_request *request = read_lease(http);

    if (request != NULL && request_no_fields(http))
        start(request, false, send_get);
}
