/* POST /v1/sessions, GET and DELETE /v1/sessions/{session_id}, GET /v1/sessions. */
#include "handlers/sessions.h"

#include <string.h>

#include "handlers/lease_reply.h"
#include "handlers/lease_request.h"
#include "handlers/multi_locks.h"
#include "handlers/routes.h"
#include "server/http/problem.h"
#include "server/http/request.h"
#include "server/base/text.h"
#include "server/base/token.h"

enum { DEFAULT_TTL_MS = 30000 };

static struct session_request *session_request_new(struct http_request *request)
{
    struct session_request *session = http_memory(request, sizeof(*session));

    session->context = http_context(request);
    session->request = request;
    return session;
}

bool sessions_read_id(struct http_request *request, bool with_token,
                      char session_id[SESSION_ID_SIZE])
{
    char token[TOKEN_TEXT_SIZE], id_of_token[SESSION_ID_SIZE];

    if (!token_parse(http_param(request, 0), session_id)) {
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL, "session_id: not a UUID");
        return false;
    }
    if (token_is_public_id(session_id)) /* not a token in its place */
        http_log_text(request, "session_id", session_id);
    if (!with_token)
        return true;
    if (!request_token(request, HTTP_SESSION_TOKEN, "Session-Token", true, token))
        return false;
    token_session_id(token, id_of_token);
    if (strcmp(id_of_token, session_id) == 0)
        return true;
    problem_reply(request, PROBLEM_FORBIDDEN, NULL,
                  "Session-Token: this is not the token of this session%s",
                  strcmp(token, session_id) == 0
                      ? ", but its session_id: the token is the UUID that opened the session"
                      : "");
    return false;
}

void sessions_log_name(struct http_request *request, const char *name)
{
    if (name[0] != '\0')
        http_log_text(request, "session_name", name);
}

int64_t sessions_keep_alive_ms(int64_t ttl_ms)
{
    return ttl_ms / 3;
}

void sessions_reply_failure(struct http_request *request, const struct session_view *view)
{
    switch (view->outcome) {
    case SESSION_ENDED:
        problem_reply(request, PROBLEM_SESSION_ENDED,
                      json_pack("{s:s}", "reason", view->reason),
                      "this session is not open: its leases are released");
        return;
    case SESSION_REUSED:
        problem_reply(
            request, PROBLEM_TOKEN_REUSED, NULL,
            "Session-Token: this token has opened a session with another ttl_ms, name or "
            "on_deadlock");
        return;
    case SESSION_WAIT_TOO_LONG:
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "wait_ms: more than half of this session's ttl_ms");
        return;
    case SESSION_FAILED:
        reply_unavailable(request, view->failure);
        return;
    case SESSION_OPENED:
    case SESSION_OPEN:
    case SESSION_RELEASED:
        break; /* no failure */
    }
    reply_unavailable(request, CALL_UNKNOWN);
}

/* --- open --------------------------------------------------------------------------------- */

struct open_fields {
    struct field_integer ttl_ms;
    struct field_text name, on_deadlock;
};

static const struct field open_fields[] = {
    {"ttl_ms", FIELD_INTEGER, offsetof(struct open_fields, ttl_ms), 1000, 3600000},
    {"name", FIELD_TEXT, offsetof(struct open_fields, name), 0, SESSION_NAME_SIZE - 1},
    {"on_deadlock", FIELD_TEXT, offsetof(struct open_fields, on_deadlock), 0, 6},
};

struct open_request {
    struct session_request base;
    int64_t ttl_ms;
    enum on_deadlock on_deadlock;
};

static const char *const on_deadlock_words[] = {
    [ON_DEADLOCK_TELL] = "tell", [ON_DEADLOCK_REFUSE] = ON_DEADLOCK_WORD};

/* False: refused. */
static bool read_on_deadlock(struct http_request *request, const struct field_text *field,
                             enum on_deadlock *on_deadlock)
{
    *on_deadlock = ON_DEADLOCK_TELL;
    if (!field->given || strcmp(field->text, on_deadlock_words[ON_DEADLOCK_TELL]) == 0)
        return true;
    *on_deadlock = ON_DEADLOCK_REFUSE;
    if (strcmp(field->text, on_deadlock_words[ON_DEADLOCK_REFUSE]) == 0)
        return true;
    problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                  "on_deadlock: not one of tell, refuse");
    return false;
}

/* No front end of a quorum searches for deadlocks. */
static bool check_on_deadlock(struct http_request *request, enum on_deadlock on_deadlock)
{
    const struct handler_context *context = http_context(request);

    if (!context->is_quorum || on_deadlock == ON_DEADLOCK_TELL)
        return true;
    problem_reply(request, PROBLEM_NOT_SUPPORTED, NULL,
                  "on_deadlock: a quorum does not search for deadlocks yet");
    return false;
}

static void on_opened(void *arg, const struct session_view *view)
{
    struct open_request *open = arg;
    struct session_request *session = &open->base;

    if (view->outcome != SESSION_OPENED && view->outcome != SESSION_OPEN) {
        sessions_reply_failure(session->request, view);
        return;
    }
    json_t *body = json_pack("{s:s, s:I, s:I, s:I, s:s}", "session_id", session->session_id,
                             "ttl_ms", (json_int_t)open->ttl_ms, "keep_alive_ms",
                             (json_int_t)sessions_keep_alive_ms(open->ttl_ms), "remaining_ms",
                             (json_int_t)view->remaining_ms, "on_deadlock",
                             on_deadlock_words[open->on_deadlock]);
    if (session->token[0] != '\0') {
        json_object_set_new(body, "session_token", json_string(session->token));
        http_reply_header(session->request, "Session-Token", session->token);
    }
    if (view->outcome == SESSION_OPENED)
        metrics_add(session->context->metrics, METRIC_SESSIONS_OPENED, 1);
    http_reply_json(session->request, view->outcome == SESSION_OPENED ? 201 : 200, body);
}

void sessions_post(struct http_request *request)
{
    struct handler_context *context = http_context(request);
    struct open_fields fields = {0};
    char token[TOKEN_TEXT_SIZE];

    if (!request_token(request, HTTP_SESSION_TOKEN, "Session-Token", false, token) ||
        !request_fields(request, open_fields, 3, &fields))
        return;
    struct open_request *open = http_memory(request, sizeof(*open));
    open->base.context = context;
    open->base.request = request;
    open->ttl_ms = fields.ttl_ms.given ? fields.ttl_ms.value : DEFAULT_TTL_MS;
    if (!lease_request_check_ttl(request, open->ttl_ms) ||
        !read_on_deadlock(request, &fields.on_deadlock, &open->on_deadlock) ||
        !check_on_deadlock(request, open->on_deadlock))
        return;
    bool came_back = token[0] != '\0' && token_is_server_made(token);
    if (token[0] == '\0') {
        token_make(open->base.token);
        memcpy(token, open->base.token, sizeof(token));
    }
    token_session_id(token, open->base.session_id);
    http_log_text(request, "session_id", open->base.session_id);
    sessions_log_name(request, fields.name.text);
    const struct session_options options = {.is_returned = came_back,
                                            .ttl_ms = open->ttl_ms,
                                            .name = fields.name.text,
                                            .on_deadlock = open->on_deadlock};
    session_open(context->store, open->base.session_id, &options, on_opened, open);
}

/* --- pages -------------------------------------------------------------------------------- */

enum { PAGE_DEFAULT = 100, PAGE_MAX = 1000 };

struct page_fields {
    struct field_integer limit;
    struct field_text cursor;
};

static const struct field page_fields[] = {
    {"limit", FIELD_INTEGER, offsetof(struct page_fields, limit), 1, PAGE_MAX},
    {"cursor", FIELD_TEXT, offsetof(struct page_fields, cursor), 0, LIST_CURSOR_SIZE - 1},
};

static void refuse_cursor(struct http_request *request)
{
    problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                  "cursor: not a next_cursor of this listing");
}

/* --- look --------------------------------------------------------------------------------- */

/* Several locks, each with its fencing token if the lease holds. */
static void write_locks(struct json_text *body, const struct session_lease_view *lease)
{
    json_text_open_array(body, "locks");
    for (size_t i = 0; i < lease->locks->count; i++) {
        json_text_open_object(body);
        reply_write_text(body, "lock", lease->locks->name[i]);
        if (!lease->is_unknown)
            json_text_integer(body, "fencing_token", lease->fencing_tokens[i]);
        json_text_close_object(body);
    }
    json_text_close_array(body);
}

static void write_held(struct json_text *body, const struct session_lease_view *lease)
{
    reply_write_text(body, "kind", lease->kind);
    json_text_integer(body, "ttl_ms", lease->ttl_ms);
    json_text_boolean(body, "watchdog", lease->watchdog);
    if (lease->locks == NULL && lease->fencing_token > 0)
        json_text_integer(body, "fencing_token", lease->fencing_token);
    if (lease->remaining_ms >= 0)
        json_text_integer(body, "remaining_ms", lease->remaining_ms);
    reply_write_text(body, "owner", lease->owner);
    reply_write_text(body, "note", lease->note);
    reply_write_text(body, "caller", lease->caller);
    if (lease->held_ms >= 0)
        json_text_integer(body, "held_ms", lease->held_ms);
}

static void write_lease(struct json_text *body, const struct session_lease_view *lease)
{
    const char *kind = lease->is_unknown ? kind_row(KIND_LOCK)->name : lease->kind;

    json_text_open_object(body);
    if (lease->locks != NULL)
        write_locks(body, lease);
    else
        reply_write_text(body, kind_row_of(kind)->member, lease->lock);
    json_text_string(body, "lease_id", lease->lease_id);
    json_text_string(body, "state", lease->is_unknown ? "unknown" : "held");
    if (!lease->is_unknown)
        write_held(body, lease);
    json_text_close_object(body);
}

/* Whether the caller may look at every name of a lease. NULL: no API tokens. */
static bool may_see(const struct auth_caller *caller, const struct lock_names *locks,
                    const char *lock)
{
    if (caller == NULL)
        return true;
    if (locks != NULL)
        return multi_locks_allows(caller, AUTH_READ, locks);
    return auth_allows(caller, AUTH_READ, lock);
}

void sessions_write_view(struct json_text *body, const char *session_id,
                         const struct session_view *view, const struct auth_caller *caller)
{
    json_text_begin(body);
    json_text_string(body, "session_id", session_id);
    json_text_integer(body, "ttl_ms", view->ttl_ms);
    json_text_integer(body, "remaining_ms", view->remaining_ms);
    json_text_integer(body, "keep_alive_ms", sessions_keep_alive_ms(view->ttl_ms));
    if (view->has_no_leases)
        return;
    json_text_open_array(body, "leases");
    for (size_t i = 0; i < view->lease_count; i++)
        if (may_see(caller, view->leases[i].locks, view->leases[i].lock))
            write_lease(body, &view->leases[i]);
    json_text_close_array(body);
}

static void write_wait(struct json_text *body, const struct session_waiting_view *wait)
{
    json_text_open_object(body);
    if (wait->locks != NULL) {
        json_text_open_array(body, "locks");
        for (size_t i = 0; i < wait->locks->count; i++) {
            json_text_open_object(body);
            reply_write_text(body, "lock", wait->locks->name[i]);
            json_text_close_object(body);
        }
        json_text_close_array(body);
    } else {
        reply_write_text(body, "lock", wait->lock);
    }
    json_text_string(body, "lease_id", wait->lease_id);
    reply_write_text(body, "owner", wait->owner);
    reply_write_text(body, "note", wait->note);
    json_text_integer(body, "waited_ms", wait->waited_ms);
    json_text_close_object(body);
}

static void write_waits(struct json_text *body, const struct session_view *view,
                        const struct auth_caller *caller)
{
    json_text_string(body, "on_deadlock", on_deadlock_words[view->on_deadlock]);
    json_text_open_array(body, "waits");
    for (size_t i = 0; i < view->wait_count; i++)
        if (may_see(caller, view->waits[i].locks, view->waits[i].lock))
            write_wait(body, &view->waits[i]);
    json_text_close_array(body);
}

static void write_cursor(struct json_text *body, const char *cursor)
{
    if (cursor[0] != '\0')
        json_text_string(body, "next_cursor", cursor);
    else
        json_text_raw(body, "next_cursor", "null", 4);
}

static void on_looked(void *arg, const struct session_view *view)
{
    struct session_request *session = arg;

    if (view->outcome == SESSION_OPEN) {
        struct json_text body;
        sessions_write_view(&body, session->session_id, view, http_caller(session->request));
        bool is_text = text_is_utf8(view->name, strlen(view->name));
        json_text_string(&body, "name", is_text ? view->name : "");
        json_text_integer(&body, "age_ms", view->age_ms);
        write_waits(&body, view, http_caller(session->request));
        write_cursor(&body, view->next_cursor);
        sessions_log_name(session->request, view->name);
        http_reply_written(session->request, 200, &body);
    } else if (view->outcome == SESSION_ENDED) {
        problem_reply(session->request, PROBLEM_NOT_FOUND, NULL, "there is no such session");
    } else {
        sessions_reply_failure(session->request, view);
    }
}

void sessions_get(struct http_request *request)
{
    char session_id[SESSION_ID_SIZE];
    struct page_fields fields = {.limit = {.value = PAGE_DEFAULT}};

    if (!sessions_read_id(request, false, session_id) ||
        !request_fields(request, page_fields, 2, &fields))
        return;
    struct session_request *session = session_request_new(request);
    memcpy(session->session_id, session_id, sizeof(session_id));
    if (session_look(session->context->store, session_id, (size_t)fields.limit.value,
                     fields.cursor.text, on_looked, session) != 0)
        refuse_cursor(request);
}

/* --- list --------------------------------------------------------------------------------- */

static void on_listed(void *arg, const struct session_list *list)
{
    struct http_request *request = arg;

    if (list->outcome != CALL_DONE) {
        reply_unavailable(request, list->outcome);
        return;
    }
    json_t *sessions = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const struct session_list_entry *entry = &list->entries[i];
        json_array_append_new(
            sessions,
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "session_id", entry->session_id, "name",
                      entry->name, "ttl_ms", (json_int_t)entry->ttl_ms, "remaining_ms",
                      (json_int_t)entry->remaining_ms, "age_ms", (json_int_t)entry->age_ms,
                      "lease_count", (json_int_t)entry->lease_count));
    }
    const char *cursor = list->next_cursor[0] != '\0' ? list->next_cursor : NULL;
    http_reply_json(request, 200,
                    json_pack("{s:o, s:s?}", "sessions", sessions, "next_cursor", cursor));
}

void sessions_list(struct http_request *request)
{
    struct handler_context *context = http_context(request);
    struct page_fields fields = {.limit = {.value = PAGE_DEFAULT}};

    if (!request_fields(request, page_fields, 2, &fields))
        return;
    if (session_list(context->store, (size_t)fields.limit.value, fields.cursor.text, on_listed,
                     request) != 0)
        refuse_cursor(request);
}

/* --- end ---------------------------------------------------------------------------------- */

static void on_ended(void *arg, const struct session_view *view)
{
    struct session_request *session = arg;

    if (view->outcome == SESSION_RELEASED)
        http_reply_json(session->request, 200,
                        json_pack("{s:s, s:I}", "session_id", session->session_id, "released",
                                  (json_int_t)view->released));
    else
        sessions_reply_failure(session->request, view);
}

void sessions_end(struct http_request *request, const char *session_id, bool is_forced)
{
    struct session_request *session = session_request_new(request);

    memcpy(session->session_id, session_id, sizeof(session->session_id));
    (is_forced ? session_force_end : session_end)(session->context->store, session_id, on_ended,
                                                  session);
}

void sessions_delete(struct http_request *request)
{
    char session_id[SESSION_ID_SIZE];

    if (sessions_read_id(request, true, session_id) && request_no_fields(request))
        sessions_end(request, session_id, false);
}
