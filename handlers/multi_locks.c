/* PATCH, DELETE and GET /v1/multi-locks, and what PUT and POST have of their own: one lease of
 * several locks. */
#include "handlers/multi_locks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/routes.h"
#include "server/problem.h"
#include "storage/multi_store.h"

/* --- names -------------------------------------------------------------------------------- */

const char *multi_locks_allows(const struct auth_caller *caller, const struct lock_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        if (!auth_allows(caller, ROUTE_LOCK, names->name[i]))
            return names->name[i];
    return NULL;
}

/* False: refused. */
static bool check_right(struct http_request *request, const struct lock_names *names)
{
    const struct auth_caller *caller = http_caller(request);
    const char *name = caller ? multi_locks_allows(caller, names) : NULL;

    if (name == NULL)
        return true;
    problem_reply(request, PROBLEM_FORBIDDEN, NULL,
                  "locks: this API token gives no right to all of these names");
    return false;
}

/* False: refused. */
static bool read_names(struct http_request *request, const struct field_names *given,
                       struct lease *lease)
{
    const char *names[LOCKS_MAX];

    if (given->count == 0) {
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "locks: this request needs 1 to %d names", LOCKS_MAX);
        return false;
    }
    for (size_t i = 0; i < given->count; i++) {
        names[i] = given->names[i];
        if (!locks_check_name(request, "locks", names[i]))
            return false;
    }
    lease->locks = lock_names_new(names, given->count);
    http_log_locks(request, multi_locks_names_json(lease->locks));
    if (lock_names_twin(lease->locks) == NULL)
        return true;
    problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                  "locks: a name is there more than once");
    return false;
}

bool multi_locks_read(struct http_request *request, const struct field_names *names,
                      struct lease *lease)
{
    if (lease->kind == LOCK_KIND_FAIR) {
        /* Places in several queues: two could each be first where the other one is second. */
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "kind: several locks at once are of kind lock, read or write, not fair");
        return false;
    }
    if (!read_names(request, names, lease) || !check_right(request, lease->locks))
        return false;
    memcpy(lease->name, lease->locks->name[0], strlen(lease->locks->name[0]) + 1);
    if (lease->mode == LEASE_NEW)
        lease->mode = LEASE_RECORDED; /* that is where the names are kept */
    return true;
}

/* --- answers ------------------------------------------------------------------------------ */

json_t *multi_locks_names_json(const struct lock_names *names)
{
    json_t *json = json_array();

    for (size_t i = 0; i < names->count; i++)
        json_array_append_new(json, json_string(names->name[i]));
    return json;
}

static json_t *holds_json(const struct lock_names *names, const struct lock_result *result)
{
    struct multi_hold holds[LOCKS_MAX];
    json_t *json = json_array();

    multi_holds(result, holds, names->count);
    for (size_t i = 0; i < names->count; i++)
        json_array_append_new(json,
                              json_pack("{s:s, s:I, s:I}", "lock", names->name[i],
                                        "fencing_token", (json_int_t)holds[i].fencing_token,
                                        "hold_count", (json_int_t)holds[i].hold_count));
    return json;
}

static void set_text(json_t *json, const char *name, const char *text)
{
    if (text[0] != '\0')
        json_object_set_new(json, name, json_string(text));
}

void multi_locks_reply_hold(struct http_request *request, int status, const struct lease *lease,
                            const struct lock_result *result, const char *token)
{
    bool is_new = result->outcome == LOCK_GRANTED;
    json_t *body = json_pack("{s:o}", "locks", holds_json(lease->locks, result));

    set_text(body, "kind", is_new ? lock_kind_name(lease->kind) : result->kind);
    set_text(body, "state", "held");
    set_text(body, "lease_id", lease->id);
    if (result->remaining_ms >= 0) /* an operator may have taken the TTLs away */
        json_object_set_new(body, "remaining_ms", json_integer(result->remaining_ms));
    json_object_set_new(body, "watchdog",
                        json_boolean(is_new ? lease->watchdog : result->watchdog));
    json_object_set_new(body, "ttl_ms", json_integer(result->ttl_ms));
    set_text(body, "session_id", is_new ? lease->session_id : result->session_id);
    set_text(body, "owner", is_new ? lease->owner : result->owner);
    set_text(body, "note", is_new ? lease->note : result->note);
    if (token != NULL) {
        set_text(body, "lease_token", token);
        http_reply_header(request, "Lease-Token", token);
    }
    http_reply_json(request, status, body);
}

/* --- requests about a lease --------------------------------------------------------------- */

/* One under way, from its arrival until its answer. */
struct multi_request {
    struct service *service;
    struct http_request *request;
    void (*send)(struct multi_request *multi);
    struct lease lease; /* its locks: as soon as Redis has told */
};

static struct multi_request *multi_request_new(struct http_request *request)
{
    struct multi_request *multi = calloc(1, sizeof(*multi));
    char token[37];

    assert(multi != NULL);
    multi->service = http_service(request);
    multi->request = request;
    if (locks_read_token(request, true, &multi->lease, token))
        return multi;
    free(multi);
    return NULL;
}

static void multi_request_free(struct multi_request *multi)
{
    lock_names_drop(multi->lease.locks);
    free(multi);
}

static void learn_names(struct multi_request *multi, const struct lock_result *result)
{
    struct lock_names *names = multi_names(multi->service->store, result);

    if (names == NULL)
        return;
    lock_names_drop(multi->lease.locks);
    multi->lease.locks = names;
    http_log_locks(multi->request, multi_locks_names_json(names));
}

static void on_named(void *arg, const struct lock_result *result)
{
    struct multi_request *multi = arg;

    learn_names(multi, result);
    if (result->outcome != LOCK_FREE)
        locks_reply_failure(multi->request, &multi->lease, result);
    else if (multi->lease.locks == NULL || check_right(multi->request, multi->lease.locks)) {
        multi->send(multi);
        return;
    }
    multi_request_free(multi);
}

/* Where API tokens are configured the names have to be known first: those of a token never
 * change. */
static void start(struct multi_request *multi, void (*send)(struct multi_request *multi))
{
    multi->send = send;
    if (http_caller(multi->request) == NULL)
        send(multi);
    else
        multi_look_names(multi->service->store, &multi->lease, on_named, multi);
}

/* --- renew -------------------------------------------------------------------------------- */

struct renew_fields {
    struct field_integer ttl_ms;
};

static const struct field renew_fields[] = {
    {"ttl_ms", FIELD_INTEGER, offsetof(struct renew_fields, ttl_ms), 100, 86400000},
};

static void on_described(void *arg, const struct lock_result *result)
{
    struct multi_request *multi = arg;

    locks_reply_busy(multi->request, &multi->lease, result);
    multi_request_free(multi);
}

static void on_renewed(void *arg, const struct lock_result *result)
{
    struct multi_request *multi = arg;

    learn_names(multi, result);
    if (result->outcome == LOCK_BUSY && multi->lease.locks != NULL) {
        locks_describe_holder(multi->service, &multi->lease, result, on_described, multi);
        return;
    }
    if (result->outcome == LOCK_HELD && multi->lease.locks != NULL) {
        metrics_add(&multi->service->metrics, METRIC_RENEWALS, 1);
        multi_locks_reply_hold(multi->request, 200, &multi->lease, result, NULL);
    } else {
        locks_reply_failure(multi->request, &multi->lease, result);
    }
    multi_request_free(multi);
}

static void send_renew(struct multi_request *multi)
{
    multi_renew(multi->service->store, &multi->lease, on_renewed, multi);
}

void multi_locks_patch(struct http_request *request)
{
    struct renew_fields fields = {0};
    struct multi_request *multi = multi_request_new(request);

    if (multi == NULL)
        return;
    if (!request_fields(request, renew_fields, 1, &fields)) {
        multi_request_free(multi);
        return;
    }
    multi->lease.watchdog = !fields.ttl_ms.given; /* if it has a session */
    multi->lease.ttl_ms = fields.ttl_ms.given
                              ? fields.ttl_ms.value
                              : multi->service->shared->config->watchdog_timeout_ms;
    start(multi, send_renew);
}

/* --- release ------------------------------------------------------------------------------ */

static void on_released(void *arg, const struct lock_result *result)
{
    struct multi_request *multi = arg;

    learn_names(multi, result);
    if (result->outcome == LOCK_RELEASED && multi->lease.locks != NULL)
        http_reply_json(multi->request, 200,
                        json_pack("{s:o, s:s, s:s, s:I}", "locks",
                                  multi_locks_names_json(multi->lease.locks), "lease_id",
                                  multi->lease.id, "state", "released", "hold_count",
                                  (json_int_t)result->hold_count));
    else
        locks_reply_failure(multi->request, &multi->lease, result);
    multi_request_free(multi);
}

static void send_release(struct multi_request *multi)
{
    multi_release(multi->service->store, &multi->lease, on_released, multi);
}

void multi_locks_delete(struct http_request *request)
{
    struct multi_request *multi = multi_request_new(request);

    if (multi == NULL)
        return;
    if (request_no_fields(request))
        start(multi, send_release);
    else
        multi_request_free(multi);
}

/* --- look --------------------------------------------------------------------------------- */

static void on_looked(void *arg, const struct lock_result *result)
{
    struct multi_request *multi = arg;

    learn_names(multi, result);
    if (result->outcome == LOCK_HELD && multi->lease.locks != NULL)
        multi_locks_reply_hold(multi->request, 200, &multi->lease, result, NULL);
    else if (result->outcome == LOCK_BUSY && multi->lease.locks != NULL)
        http_reply_json(multi->request, 200,
                        json_pack("{s:o, s:s, s:s}", "locks",
                                  multi_locks_names_json(multi->lease.locks), "lease_id",
                                  multi->lease.id, "state", "waiting"));
    else
        locks_reply_failure(multi->request, &multi->lease, result);
    multi_request_free(multi);
}

static void send_look(struct multi_request *multi)
{
    multi_look(multi->service->store, &multi->lease, on_looked, multi);
}

void multi_locks_get(struct http_request *request)
{
    struct multi_request *multi = multi_request_new(request);

    if (multi == NULL)
        return;
    if (request_no_fields(request))
        start(multi, send_look);
    else
        multi_request_free(multi);
}
