/* /fleetlock/v1/…: FleetLock, by which machines ask whether they may reboot. A group of
 * machines is the permit semaphore `fleetlock/<group>`, and a slot of the group is a permit of
 * it, whose note is the id of its machine. A group that is asked for first is made with one
 * slot. */
#include <stdio.h>
#include <string.h>

#include "handlers/lease_reply.h"
#include "handlers/neighbours.h"
#include "handlers/routes.h"
#include "server/http/problem.h"
#include "storage/lease/counters.h"
#include "storage/lease/leases.h"

#define GROUP_PREFIX "fleetlock/"

enum { GROUP_MAX = 128, ID_MAX = LOCK_NOTE_SIZE - 1, FIRST_SLOTS = 1 };

/* The protocol's marker, which no web form and no browser sends by itself. */
static bool has_header(struct http_request *http)
{
    const char *value = http_header(http, HTTP_FLEET_LOCK_PROTOCOL);

    if (value != NULL && strcmp(value, "true") == 0)
        return true;
    problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                  "fleet-lock-protocol: this request needs the header, with the value true");
    return false;
}

/* The permit semaphore of the group. False: refused. */
static bool set_group(struct lease_request *request, const char *group)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    const struct auth_caller *caller = http_caller(request->http);
    char name[sizeof(GROUP_PREFIX) + GROUP_MAX];

    if (group[strspn(group, allowed)] != '\0') {
        problem_reply(request->http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "group: not 1 to %d of A-Z a-z 0-9 . -", GROUP_MAX);
        return false;
    }
    snprintf(name, sizeof(name), GROUP_PREFIX "%s", group);
    http_log_text(request->http, "permit_semaphore", name);
    if (caller != NULL && !auth_allows(caller, AUTH_LOCK, name)) {
        http_forbid(request->http, AUTH_LOCK, "this API token gives no right to this group");
        return false;
    }
    request->lease.names = lock_names_of_one(name);
    return lease_request_check_name(request->http, "group", name);
}

static bool read_machine(struct lease_request *request, const json_t *body)
{
    struct http_request *http = request->http;
    const json_t *machine = json_object_get(body, "client_params");
    const char *id = neighbour_text(http, machine, "id", ID_MAX);
    const char *group = id != NULL ? neighbour_text(http, machine, "group", GROUP_MAX) : NULL;

    if (group == NULL || !set_group(request, group))
        return false;
    lease_request_client(request, id);
    snprintf(request->lease.note, sizeof(request->lease.note), "%s", id);
    return true;
}

/* NULL: refused. */
static struct lease_request *begin(struct http_request *http)
{
    struct lease_request *request = lease_request_new(http, KIND_PERMIT);
    json_t *body = has_header(http) && request_query_fields(http, NULL, 0, NULL)
                       ? neighbour_body(http)
                       : NULL;
    bool is_read = body != NULL && read_machine(request, body);

    request->lease.permits = 1;
    request->lease.reusable = true; /* a machine has one id for all its reboots */
    json_decref(body);
    return is_read ? request : NULL;
}

/* --- pre-reboot --------------------------------------------------------------------------- */

static void on_acquired(struct lease_request *request, const struct acquire_result *result)
{
    if (result->outcome == TRY_GRANTED)
        lease_reply_hold(request, 200, result->lease);
    else
        lease_reply_acquired(request, result);
}

static void on_group(void *arg, const struct counter_result *result)
{
    struct lease_request *request = arg;
    struct lease_fields fields = {0};
    const struct lease_result failure = {
        .outcome = result->outcome == COUNTER_WRONG_KIND ? LEASE_WRONG_KIND : LEASE_FAILED,
        .failure = result->failure};

    if (result->outcome == COUNTER_CREATED || result->outcome == COUNTER_EXISTS)
        neighbour_acquire(request, &fields, on_acquired);
    else
        lease_reply_failure(request, &failure);
}

void fleetlock_pre_reboot(struct http_request *http)
{
    struct lease_request *request = begin(http);
    struct lease_fields fields = {0};

    /* A request that is refused makes no group. */
    if (request == NULL || !neighbour_set_ttl(request, &fields))
        return;
    if (request->context->draining)
        neighbour_acquire(request, &fields, on_acquired);
    else
        counter_create(request->context->store, KIND_PERMIT, lease_name(&request->lease),
                       FIRST_SLOTS, on_group, request);
}

/* --- steady-state ------------------------------------------------------------------------- */

/* A machine that has no slot is told the same as a machine that gave its slot back. */
static void on_released(void *arg, const struct lease_result *result)
{
    struct lease_request *request = arg;

    if (result->outcome == LEASE_RELEASED || result->outcome == LEASE_ENDED)
        lease_reply_released(request, result);
    else
        lease_reply_failure(request, result);
}

void fleetlock_steady_state(struct http_request *http)
{
    struct lease_request *request = begin(http);

    if (request != NULL)
        lease_release(request->context->store, &request->lease, on_released, request);
}
