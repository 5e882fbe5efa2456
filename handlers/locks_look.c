/* GET /v1/locks/{name}, GET /v1/locks/{name}/fencing-tokens/{n}. */
#include <stdlib.h>
#include <string.h>

#include "handlers/deadlock_reply.h"
#include "handlers/holders.h"
#include "handlers/lease_reply.h"
#include "handlers/lease_request.h"
#include "handlers/lock_view.h"
#include "handlers/routes.h"
#include "server/http/problem.h"
#include "server/http/request.h"
#include "server/base/text.h"
#include "storage/look/locks.h"

/* Of readers and writers each holder has a token and a time of its own. */
static json_t *shown_holder_json(const struct handler_context *context, const char *name,
                                 const struct lock_holder *holder)
{
    json_t *json = holder_json(context, name, holder);

    if (!kind_row_of(holder->kind)->shares_holder)
        return json;
    if (holder->fencing_token > 0)
        json_object_set_new(json, "fencing_token", json_integer(holder->fencing_token));
    if (holder->remaining_ms >= 0)
        json_object_set_new(json, "remaining_ms", json_integer(holder->remaining_ms));
    return json;
}

/* Held at some servers, and at no majority: an attempt that is under way, or what one has left.
 */
static json_t *quorum_json(const struct lock_view *view)
{
    return json_pack("{s:I, s:I, s:I, s:b}", "nodes", (json_int_t)view->quorum.nodes, "replied",
                     (json_int_t)view->quorum.replied, "held", (json_int_t)view->quorum.held,
                     "undecided", !view->locked && view->quorum.held > 0);
}

json_t *lock_view_json(const struct handler_context *context, const char *name,
                       const struct lock_view *view)
{
    json_t *json = json_pack("{s:s, s:b}", "lock", name, "locked", view->locked);

    if (json == NULL)
        return NULL;
    json_t *holders = json_array();
    if (view->kind[0] != '\0')
        json_object_set_new(json, "kind", json_string(view->kind));
    if (view->locked) {
        for (size_t i = 0; i < view->holders_shown; i++)
            json_array_append_new(holders, shown_holder_json(context, name, &view->holders[i]));
        if (view->remaining_ms >= 0)
            json_object_set_new(json, "remaining_ms", json_integer(view->remaining_ms));
    }
    json_object_set_new(json, "holders", holders);
    if (view->holder_count > view->holders_shown)
        json_object_set_new(json, "holder_count", json_integer((json_int_t)view->holder_count));
    if (view->fencing_token > 0)
        json_object_set_new(json, "fencing_token", json_integer(view->fencing_token));
    if (view->quorum.nodes > 0)
        json_object_set_new(json, "quorum", quorum_json(view));
    return json;
}

json_t *lock_waiters_json(const struct lock_view *view)
{
    json_t *waiters = json_array();

    for (size_t i = 0; i < view->waiters_shown; i++) {
        const struct lock_waiter_view *waiter = &view->waiters[i];
        json_t *json = json_object();
        if (waiter->lease_id[0] != '\0') {
            json_object_set_new(json, "lease_id", json_string(waiter->lease_id));
            json_object_set_new(json, "remaining_ms", json_integer(waiter->remaining_ms));
        } else {
            json_object_set_new(json, "redisson_holder", json_string(waiter->field));
        }
        if (waiter->waited_ms >= 0)
            json_object_set_new(json, "waited_ms", json_integer(waiter->waited_ms));
        if (waiter->note[0] != '\0')
            json_object_set_new(json, "note", json_string(waiter->note));
        holder_add_caller(json, waiter->caller);
        json_array_append_new(waiters, json);
    }
    return waiters;
}

static json_t *lease_json(const char *lease_id, const struct lock_view *view)
{
    static const char *const states[] = {[LEASE_STATE_UNASKED] = "unknown",
                                         [LEASE_STATE_UNKNOWN] = "unknown",
                                         [LEASE_STATE_WAITING] = "waiting",
                                         [LEASE_STATE_HELD] = "held",
                                         [LEASE_STATE_ENDED] = "ended"};
    json_t *json = json_pack("{s:s, s:s}", "lease_id", lease_id, "state",
                             states[view->lease_state]);

    if (view->lease_state == LEASE_STATE_ENDED)
        json_object_set_new(json, "reason", json_string(view->reason));
    return json;
}

static void reply_not_read(struct http_request *request, const struct lock_view *view)
{
    if (view->outcome == CALL_WRONG_TYPE)
        problem_reply(request, PROBLEM_WRONG_KIND, NULL,
                      "this name is in use in Redis as another kind of object");
    else
        reply_unavailable(request, view->outcome);
}

static void on_got(void *arg, const struct lock_view *view)
{
    struct lease_request *request = arg;

    if (view->outcome != CALL_DONE) {
        reply_not_read(request->http, view);
        return;
    }
    json_t *body = lock_view_json(request->context, lease_name(&request->lease), view);
    json_object_set_new(body, "waiter_count", json_integer((json_int_t)view->waiter_count));
    json_object_set_new(body, "waiters", lock_waiters_json(view));
    json_object_set_new(body, "deadlock", deadlock_shown(request->http, view->deadlock));
    if (view->lease_state != LEASE_STATE_UNASKED)
        json_object_set_new(body, "lease", lease_json(request->lease.id, view));
    http_reply_json(request->http, 200, body);
}

void locks_get(struct http_request *http)
{
    struct lease_request *request = lease_request_new(http, KIND_LOCK);
    bool asks_for_lease = http_header(http, HTTP_LEASE_TOKEN) != NULL;

    if (!lease_request_name(request) ||
        (asks_for_lease && !lease_request_token(request, true)) || !request_no_fields(http))
        return;
    struct lock_query query = {.lease = asks_for_lease ? &request->lease : NULL,
                               .waiters_max = LOCK_WAITERS_SHOWN,
                               .holders_max = LOCK_HOLDERS_SHOWN};
    lock_get(request->context->store, lease_name(&request->lease), &query, on_got, request);
}

/* --- fencing tokens ----------------------------------------------------------------------- */

struct token_check {
    struct lease_request *request;
    int64_t fencing_token;
};

static void on_checked(void *arg, const struct lock_view *view)
{
    const struct token_check *check = arg;
    struct http_request *http = check->request->http;

    if (view->outcome != CALL_DONE) {
        reply_not_read(http, view);
        return;
    }
    if (view->has_more_readers) {
        reply_many_readers(http);
        return;
    }
    json_t *body = json_pack("{s:s, s:I, s:b}", "lock", lease_name(&check->request->lease),
                             "fencing_token", (json_int_t)check->fencing_token, "current",
                             view->is_current);
    if (view->is_current)
        http_reply_json(http, 200, body);
    else
        problem_reply(http, PROBLEM_FENCING_TOKEN_STALE, body,
                      "this is not the fencing token of the current grant");
}

void locks_check_fencing_token(struct http_request *http)
{
    struct token_check *check = http_memory(http, sizeof(*check));

    check->request = lease_request_new(http, KIND_LOCK);
    if (!lease_request_name(check->request) || !request_no_fields(http))
        return;
    if (!text_parse_int64(http_param(http, 1), &check->fencing_token) ||
        check->fencing_token <= 0) {
        problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "fencing token: not a positive whole number");
        return;
    }
    /* A writer and its own reads are two holders; how many read does not matter. In a quorum
     * the servers have to name the same reader. */
    bool is_quorum = check->request->context->is_quorum;
    struct lock_query query = {.fencing_token = check->fencing_token,
                               .holders_max = is_quorum ? LOCK_HOLDERS_SHOWN : 2};
    lock_get(check->request->context->store, lease_name(&check->request->lease), &query,
             on_checked, check);
}
