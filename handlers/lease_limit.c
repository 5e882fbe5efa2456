/* Counting of a caller's leases: at a grant, and at the ends that an answer or message
 * reports. */
#include "handlers/lease_limit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/problem.h"

/* The counted leases of the caller; NULL: no lease of this caller is counted. */
static struct auth_leases *leases_of(const struct http_request *http)
{
    const struct auth_caller *caller = http_caller(http);

    return caller != NULL ? auth_leases(caller) : NULL;
}

static struct auth_lease_key key_of(const char *member, const char *name, const char *lease_id)
{
    char text[LEASE_ID_SIZE + 32 + LOCK_NAME_SIZE];
    struct auth_lease_key key;
    int len = snprintf(text, sizeof(text), "%s %s %s", lease_id, member, name);

    assert(len > 0 && (size_t)len < sizeof(text));
    auth_hash(text, (size_t)len, key.bytes);
    return key;
}

/* Without the names: the names of a set never change for one token, and a request to renew or
 * release may not have them. */
static struct auth_lease_key key_of_set(const char *lease_id)
{
    return key_of(kind_row(KIND_SET_LOCK)->member, "", lease_id);
}

static struct auth_lease_key key_of_request(const struct lease_request *request)
{
    const struct kind_row *kind = kind_row(request->lease.kind);

    if (lease_is_set(&request->lease))
        return key_of_set(request->lease.id);
    return key_of(kind->member, lease_name(&request->lease), request->lease.id);
}

static struct auth_lease_hold hold_of(const struct lease_request *request,
                                      const struct lease_result *result)
{
    return (struct auth_lease_hold){.key = key_of_request(request),
                                    .remaining_ms = result->remaining_ms,
                                    .watchdog = result->record != NULL
                                                    ? result->record->watchdog
                                                    : request->lease.watchdog};
}

static int64_t now_ns(const struct lease_request *request)
{
    return loop_now_ns(request->context->loop);
}

/* --- one lease ---------------------------------------------------------------------------- */

bool lease_limit_begin(struct lease_request *request)
{
    enum kind_family family = kind_row(request->lease.kind)->family;
    struct auth_leases *leases = leases_of(request->http);

    if (leases == NULL || family == FAMILY_SEMAPHORE || family == FAMILY_LATCH)
        return true;
    const struct auth_lease_key key = key_of_request(request);
    int64_t max = auth_max_leases(http_caller(request->http));
    request->counts = auth_leases_attempt(leases, max, &key, request->lease.session_id,
                                          now_ns(request));
    if (!request->counts)
        problem_reply(request->http, PROBLEM_LIMIT_REACHED,
                      json_pack("{s:I}", "limit", (json_int_t)max),
                      "max-leases: this API token has as many leases as it may, those that "
                      "wait included");
    return request->counts;
}

static void note_result(struct lease_request *request, struct auth_leases *leases,
                        const struct acquire_result *result)
{
    const struct auth_lease_hold hold = hold_of(request, result->lease);

    if (result->outcome == ACQUIRE_GRANTED || result->outcome == ACQUIRE_CONFIRMED) {
        request->held_ns = now_ns(request);
        auth_leases_held(leases, &hold, request->held_ns);
    } else if (result->lease->outcome == LEASE_ENDED) {
        auth_leases_over(leases, &hold.key, now_ns(request));
    } else if (result->lease->outcome == LEASE_SESSION_ENDED) {
        auth_leases_session_ended(leases, request->lease.session_id);
    }
}

void lease_limit_acquired(struct lease_request *request, const struct acquire_result *result)
{
    struct auth_leases *leases = leases_of(request->http);

    if (!request->counts)
        return;
    request->counts = false;
    if (result != NULL && result->lease != NULL)
        note_result(request, leases, result);
    const struct auth_lease_key key = key_of_request(request);
    auth_leases_attempt_ended(leases, &key);
}

void lease_limit_withdrawn(struct lease_request *request)
{
    struct auth_leases *leases = leases_of(request->http);

    if (leases == NULL)
        return;
    const struct auth_lease_key key = key_of_request(request);
    auth_leases_over(leases, &key, request->held_ns);
}

void lease_limit_changed(struct lease_request *request, const struct lease_result *result)
{
    struct auth_leases *leases = leases_of(request->http);

    if (leases == NULL)
        return;
    const struct auth_lease_hold hold = hold_of(request, result);
    if (result->outcome == LEASE_HELD)
        auth_leases_held(leases, &hold, now_ns(request));
    else if (result->outcome == LEASE_RELEASED || result->outcome == LEASE_ENDED)
        auth_leases_over(leases, &hold.key, now_ns(request));
}

/* --- a session ---------------------------------------------------------------------------- */

void lease_limit_session_open(struct http_request *http, const char *session_id,
                              const struct session_view *view)
{
    const struct handler_context *context = http_context(http);
    struct auth_leases *leases = leases_of(http);

    if (leases != NULL)
        auth_leases_session_open(leases, auth_max_leases(http_caller(http)), session_id,
                                 view->remaining_ms + context->config->watchdog_timeout_ms,
                                 loop_now_ns(context->loop));
}

static struct auth_lease_hold hold_of_view(const struct session_lease_view *lease)
{
    struct auth_lease_hold hold = {.remaining_ms = lease->remaining_ms,
                                   .watchdog = lease->watchdog};

    hold.key = lease->locks != NULL
                   ? key_of_set(lease->lease_id)
                   : key_of(kind_row_of(lease->kind)->member, lease->lock, lease->lease_id);
    return hold;
}

/* Whether the session may have further leases that hold. */
static bool is_partial(const struct session_view *view)
{
    bool is_partial = view->has_no_leases;

    for (size_t i = 0; i < view->lease_count; i++)
        is_partial |= view->leases[i].is_unknown;
    return is_partial;
}

void lease_limit_session_holds(struct http_request *http, const char *session_id,
                               const struct session_view *view, int64_t asked_ns)
{
    const struct handler_context *context = http_context(http);
    struct auth_leases *leases = leases_of(http);

    if (leases == NULL)
        return;
    lease_limit_session_open(http, session_id, view);
    if (is_partial(view))
        return;
    struct auth_lease_hold *holds = calloc(view->lease_count + 1, sizeof(*holds));
    assert(holds != NULL);
    for (size_t i = 0; i < view->lease_count; i++)
        holds[i] = hold_of_view(&view->leases[i]);
    auth_leases_session_holds(leases, session_id, holds, view->lease_count, asked_ns,
                              loop_now_ns(context->loop));
    free(holds);
}

void lease_limit_session_ended(struct http_request *http, const char *session_id)
{
    struct auth_leases *leases = leases_of(http);

    if (leases != NULL)
        auth_leases_session_ended(leases, session_id);
}
