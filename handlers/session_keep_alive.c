/* POST /v1/sessions/{session_id}/keep-alive: keeps the session alive, and tells its client of
 * lost leases at once. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/multi_locks.h"
#include "handlers/routes.h"
#include "handlers/sessions.h"
#include "server/base/clock.h"
#include "server/http/problem.h"
#include "server/http/request.h"

struct keep_alive_fields {
    struct field_integer wait_ms;
    struct field_ids held;
};

static const struct field keep_alive_fields[] = {
    {"wait_ms", FIELD_INTEGER, offsetof(struct keep_alive_fields, wait_ms), 0, 1800000},
    {"held", FIELD_IDS, offsetof(struct keep_alive_fields, held), 0, SESSION_HELD_MAX},
};

/* More than Redis may be behind with the end of a key. */
enum { LOOK_AGAIN_MS = 20 };

/* One keep-alive from its arrival until its answer is on its way. */
struct keep_alive {
    struct handler_context *context;
    struct http_request *request;
    struct session_watcher watcher;
    int64_t deadline_ns;
    bool looking, notified, gone, has_kept_alive;
    size_t answered_loss_count; /* losses in the answer */
    char **answered_losses;     /* their texts */
    char session_id[SESSION_ID_SIZE];
};

static void on_looked(void *arg, const struct session_view *view);

/* Watches the session from before the look on, so that no loss in between is missed. */
static void look(struct keep_alive *keep_alive, const struct session_keep_alive *details)
{
    struct handler_context *context = keep_alive->context;

    keep_alive->looking = true;
    keep_alive->notified = false;
    session_watcher_stop(&keep_alive->watcher);
    if (keep_alive->deadline_ns > loop_now_ns(context->loop) &&
        !session_watcher_start(context->session_watch, &keep_alive->watcher,
                               keep_alive->deadline_ns))
        keep_alive->deadline_ns = 0; /* no place to hang: answered at once */
    session_keep_alive(context->store, keep_alive->session_id, details, on_looked, keep_alive);
}

static void look_again(struct keep_alive *keep_alive)
{
    look(keep_alive, &(struct session_keep_alive){.is_repeated = true});
}

static void on_notified(void *arg)
{
    struct keep_alive *keep_alive = arg;

    if (keep_alive->looking)
        keep_alive->notified = true; /* the look may have missed the loss */
    else
        look_again(keep_alive);
}

/* Remembers which losses the answer names. */
static void note_losses(struct keep_alive *keep_alive, const struct session_view *view)
{
    struct http_request *request = keep_alive->request;
    char **texts = http_memory(request, (view->loss_count + 1) * sizeof(*texts));

    for (size_t i = 0; i < view->loss_count; i++) {
        size_t size = strlen(view->losses[i].text) + 1;
        texts[i] = memcpy(http_memory(request, size), view->losses[i].text, size);
    }
    keep_alive->answered_losses = texts;
    keep_alive->answered_loss_count = view->loss_count;
}

/* `forced`: the caller, a newline and the reason. */
static void add_forced(json_t *json, const char *forced)
{
    size_t caller_len = strcspn(forced, "\n");
    const char *reason = forced + caller_len + (forced[caller_len] == '\n');

    if (caller_len > 0)
        json_object_set_new(json, "forced_by", json_stringn(forced, caller_len));
    if (reason[0] != '\0')
        json_object_set_new(json, "forced_reason", json_string(reason));
}

static json_t *losses_json(const struct session_view *view)
{
    json_t *lost = json_array();

    for (size_t i = 0; i < view->loss_count; i++) {
        const struct session_loss_view *loss = &view->losses[i];
        json_t *json = json_object();
        if (loss->locks != NULL)
            json_object_set_new(json, "locks", multi_locks_names_json(loss->locks));
        else
            json_object_set_new(json, kind_row_of(loss->kind)->member, json_string(loss->lock));
        json_object_set_new(json, "lease_id", json_string(loss->lease_id));
        json_object_set_new(json, "reason", json_string(loss->reason));
        if (loss->forced != NULL)
            add_forced(json, loss->forced);
        json_array_append_new(lost, json);
    }
    for (size_t i = 0; i < view->unknown_count; i++)
        json_array_append_new(
            lost, json_pack("{s:s, s:s}", "lease_id", view->unknown[i], "reason", "unknown"));
    return lost;
}

static void write_answer(struct json_text *body, const struct keep_alive *keep_alive,
                         const struct session_view *view)
{
    sessions_write_view(body, keep_alive->session_id, view, NULL);
    json_text_boolean(body, "draining", keep_alive->context->draining);
    if (view->has_no_leases)
        return;
    json_t *lost = losses_json(view);
    char *lost_text = json_dumps(lost, JSON_COMPACT);
    assert(lost_text != NULL);
    json_text_raw(body, "lost", lost_text, strlen(lost_text));
    free(lost_text);
    json_decref(lost);
}

/* The session lives on, so the answer is never refused. If the answer is large, and its client
 * does not read such answers, the answer goes without leases and losses: the next answer names
 * them. */
static void reply(struct keep_alive *keep_alive, const struct session_view *view)
{
    struct session_view brief = *view;
    struct json_text body;

    write_answer(&body, keep_alive, view);
    if (!http_may_answer(keep_alive->request, body.len)) {
        json_text_drop(&body);
        brief.has_no_leases = true;
        brief.loss_count = 0;
        write_answer(&body, keep_alive, &brief);
    }
    note_losses(keep_alive, &brief);
    sessions_log_name(keep_alive->request, view->name);
    if (!brief.has_no_leases && view->loss_count + view->unknown_count > 0)
        http_log_integer(keep_alive->request, "lost",
                         (int64_t)(view->loss_count + view->unknown_count));
    http_reply_written(keep_alive->request, 200, &body);
}

/* Answers a failed look. Once the request has kept the session alive, the outcome is "unknown"
 * instead of "not executed". */
static void reply_failure(const struct keep_alive *keep_alive, const struct session_view *view)
{
    struct session_view failed = *view;

    if (keep_alive->has_kept_alive && failed.outcome == SESSION_FAILED)
        failed.failure = CALL_UNKNOWN;
    sessions_reply_failure(keep_alive->request, &failed);
}

/* When a lease that the watchdog does not renew must have ended: no message comes at that
 * time. */
static int64_t next_end_ns(const struct keep_alive *keep_alive, const struct session_view *view)
{
    int64_t next_ms = INT64_MAX;

    for (size_t i = 0; i < view->lease_count; i++) {
        const struct session_lease_view *lease = &view->leases[i];
        if (!lease->is_unknown && !lease->watchdog && lease->remaining_ms >= 0 &&
            lease->remaining_ms < next_ms)
            next_ms = lease->remaining_ms;
    }
    if (next_ms > keep_alive->deadline_ns / CLOCK_NS_PER_MS)
        return keep_alive->deadline_ns;
    int64_t at_ns = loop_now_ns(keep_alive->context->loop) +
                    (next_ms + LOOK_AGAIN_MS) * CLOCK_NS_PER_MS;
    return at_ns < keep_alive->deadline_ns ? at_ns : keep_alive->deadline_ns;
}

/* Holds the answer back until the session loses a lease or ends, a lease must have ended, or
 * the deadline. */
static bool hang(struct keep_alive *keep_alive, const struct session_view *view)
{
    session_watcher_stop(&keep_alive->watcher);
    return session_watcher_start(keep_alive->context->session_watch, &keep_alive->watcher,
                                 next_end_ns(keep_alive, view));
}

static void on_looked(void *arg, const struct session_view *view)
{
    struct keep_alive *keep_alive = arg;
    struct handler_context *context = keep_alive->context;
    /* A request that could not read its leases would not see one of them end. */
    bool is_over = view->outcome != SESSION_OPEN || view->has_no_leases ||
                   view->loss_count > 0 || view->unknown_count > 0 || context->draining ||
                   loop_now_ns(context->loop) >= keep_alive->deadline_ns;

    keep_alive->looking = false;
    keep_alive->has_kept_alive |= view->outcome == SESSION_OPEN;
    /* Without a place to hang it is answered at once. */
    if (!keep_alive->gone && !is_over && http_suspend(keep_alive->request)) {
        if (keep_alive->notified || !hang(keep_alive, view))
            look_again(keep_alive);
        return;
    }
    session_watcher_stop(&keep_alive->watcher);
    if (keep_alive->gone)
        http_drop(keep_alive->request);
    else if (view->outcome == SESSION_OPEN)
        reply(keep_alive, view);
    else
        reply_failure(keep_alive, view);
}

static void on_gone(void *arg)
{
    struct keep_alive *keep_alive = arg;

    keep_alive->gone = true;
    if (keep_alive->looking)
        return; /* on_looked() ends it */
    session_watcher_stop(&keep_alive->watcher);
    http_drop(keep_alive->request);
}

static void on_end(void *arg, bool delivered)
{
    struct keep_alive *keep_alive = arg;

    /* Told again next time, unless this answer has gone out. */
    if (delivered && keep_alive->answered_loss_count > 0)
        session_forget_losses(keep_alive->context->store, keep_alive->session_id,
                              keep_alive->answered_losses, keep_alive->answered_loss_count);
}

void sessions_keep_alive(struct http_request *request)
{
    struct handler_context *context = http_context(request);
    char session_id[SESSION_ID_SIZE], held[SESSION_HELD_MAX][LEASE_ID_SIZE];
    struct keep_alive_fields fields = {.held.ids = held};

    if (!sessions_read_id(request, true, session_id) ||
        !request_fields(request, keep_alive_fields, 2, &fields))
        return;
    struct keep_alive *keep_alive = http_memory(request, sizeof(*keep_alive));
    keep_alive->context = context;
    keep_alive->request = request;
    memcpy(keep_alive->session_id, session_id, sizeof(session_id));
    memcpy(keep_alive->watcher.session_id, session_id, sizeof(session_id));
    keep_alive->watcher.notified = on_notified;
    keep_alive->watcher.arg = keep_alive;
    if (fields.wait_ms.value > 0) {
        http_log_integer(request, "wait_ms", fields.wait_ms.value);
        keep_alive->deadline_ns = http_received_ns(request) +
                                  fields.wait_ms.value * CLOCK_NS_PER_MS;
    }
    const struct session_keep_alive details = {.received_ns = http_received_ns(request),
                                               .wait_ms = fields.wait_ms.value,
                                               .says_held = fields.held.given,
                                               .held_count = fields.held.count,
                                               .held = (const char(*)[LEASE_ID_SIZE])held};
    http_watch(request, on_gone, on_end, keep_alive);
    look(keep_alive, &details);
}
