/* How the results of requests about leases look in HTTP. */
#include "handlers/lease_reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "handlers/deadlock_reply.h"
#include "handlers/holders.h"
#include "handlers/multi_locks.h"
#include "server/base/text.h"
#include "server/http/problem.h"
#include "storage/look/grant_find.h"
#include "storage/notes/bind.h"

/* Bounds of retry_after_ms in a 423: how long the client should pause before the next
 * attempt. */
enum { RETRY_AFTER_MIN_MS = 50, RETRY_AFTER_MAX_MS = 1000 };

/* A longer lease is in the audit trail. */
enum { AUDIT_TTL_MS = 3600000 };

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text[0] != '\0')
        json_object_set_new(object, name, json_string(text));
}

static const struct kind_row *kind_of(const struct lease_request *request)
{
    return kind_row(request->lease.kind);
}

/* {"lock": name} or {"locks": […]}; empty as long as the names of a set are not known. */
static json_t *names_member(const struct lease_request *request)
{
    const struct lock_names *names = request->lease.names;
    json_t *json = json_object();

    if (names != NULL && lease_is_set(&request->lease))
        json_object_set_new(json, kind_of(request)->member, multi_locks_names_json(names));
    else if (names != NULL)
        json_object_set_new(json, kind_of(request)->member, json_string(names->name[0]));
    return json;
}

/* --- a lease that holds ------------------------------------------------------------------- */

/* At the grant the note and session are those of the request; later they come from the lease's
 * record. */
struct shown_lease {
    const char *kind, *session_id, *owner, *note;
    bool watchdog;
};

static struct shown_lease shown_of(const struct lease_request *request,
                                   const struct lease_result *result)
{
    const struct lease_record *record = result->record;
    const struct lease *lease = &request->lease;
    const char *kind = kind_of(request)->name;

    if (record == NULL)
        return (struct shown_lease){.kind = kind,
                                    .session_id = lease->session_id,
                                    .owner = lease->owner,
                                    .note = lease->note,
                                    .watchdog = lease->watchdog};
    return (struct shown_lease){.kind = record->kind[0] != '\0' ? record->kind : kind,
                                .session_id = record->session_id,
                                .owner = record->owner,
                                .note = record->note,
                                .watchdog = record->watchdog};
}

static void show_token(struct lease_request *request)
{
    if (request->show_token)
        http_reply_header(request->http, "Lease-Token", request->token);
}

void reply_write_text(struct json_text *body, const char *name, const char *text)
{
    if (text[0] != '\0' && text_is_utf8(text, strlen(text)))
        json_text_string(body, name, text);
}

static void reply_hold_of_one(struct lease_request *request, int status,
                              const struct lease_result *result)
{
    struct shown_lease shown = shown_of(request, result);
    bool is_permit = kind_of(request)->family == FAMILY_PERMIT;
    struct json_text body;

    json_text_begin(&body);
    json_text_string(&body, kind_of(request)->member, lease_name(&request->lease));
    if (!is_permit)
        reply_write_text(&body, "kind", shown.kind);
    json_text_string(&body, "state", "held");
    json_text_string(&body, "lease_id", request->lease.id);
    if (!is_permit) {
        json_text_integer(&body, "fencing_token", result->holds[0].fencing_token);
        json_text_integer(&body, "hold_count", result->holds[0].hold_count);
    }
    if (result->remaining_ms >= 0) /* an operator may have taken the TTL away */
        json_text_integer(&body, "remaining_ms", result->remaining_ms);
    json_text_boolean(&body, "watchdog", shown.watchdog);
    if (result->ttl_ms > 0)
        json_text_integer(&body, "ttl_ms", result->ttl_ms);
    reply_write_text(&body, "session_id", shown.session_id);
    reply_write_text(&body, "owner", shown.owner);
    reply_write_text(&body, "note", shown.note);
    if (is_permit)
        json_text_integer(&body, "available", result->available);
    if (request->show_token)
        json_text_string(&body, "lease_token", request->token);
    show_token(request);
    http_reply_written(request->http, status, &body);
}

static json_t *holds_json(const struct lock_names *names, const struct lease_result *result)
{
    json_t *json = json_array();

    for (size_t i = 0; i < names->count && i < result->hold_count; i++)
        json_array_append_new(
            json, json_pack("{s:s, s:I, s:I}", "lock", names->name[i], "fencing_token",
                            (json_int_t)result->holds[i].fencing_token, "hold_count",
                            (json_int_t)result->holds[i].hold_count));
    return json;
}

static void reply_hold_of_set(struct lease_request *request, int status,
                              const struct lease_result *result)
{
    struct shown_lease shown = shown_of(request, result);
    json_t *body = json_pack("{s:o}", kind_of(request)->member,
                             holds_json(request->lease.names, result));

    set_text(body, "kind", shown.kind);
    set_text(body, "state", "held");
    set_text(body, "lease_id", request->lease.id);
    if (result->remaining_ms >= 0) /* an operator may have taken the TTLs away */
        json_object_set_new(body, "remaining_ms", json_integer(result->remaining_ms));
    json_object_set_new(body, "watchdog", json_boolean(shown.watchdog));
    json_object_set_new(body, "ttl_ms", json_integer(result->ttl_ms));
    set_text(body, "session_id", shown.session_id);
    set_text(body, "owner", shown.owner);
    set_text(body, "note", shown.note);
    if (request->show_token)
        set_text(body, "lease_token", request->token);
    show_token(request);
    http_reply_json(request->http, status, body);
}

static json_t *fencing_tokens_json(const struct lease_result *result)
{
    json_t *json = json_array();

    for (size_t i = 0; i < result->hold_count; i++)
        json_array_append_new(json, json_integer(result->holds[i].fencing_token));
    return json;
}

/* Also the session of a renewal, which needs no Session-Token. */
void lease_log_hold(const struct lease_request *request, const struct lease_result *result)
{
    if (!log_is_on(LOG_LEVEL_INFO))
        return;
    const char *session_id = shown_of(request, result).session_id;
    if (session_id[0] != '\0' && request->lease.session_id[0] == '\0')
        http_log_text(request->http, "session_id", session_id);
    if (lease_is_set(&request->lease))
        http_log_json(request->http, "fencing_tokens", fencing_tokens_json(result));
    else if (kind_of(request)->family != FAMILY_PERMIT)
        http_log_integer(request->http, "fencing_token", result->holds[0].fencing_token);
    if (result->ttl_ms > AUDIT_TTL_MS) {
        http_log_integer(request->http, "ttl_ms", result->ttl_ms);
        http_log_audit(request->http);
    }
}

void lease_reply_hold(struct lease_request *request, int status,
                      const struct lease_result *result)
{
    lease_log_hold(request, result);
    if (lease_is_set(&request->lease))
        reply_hold_of_set(request, status, result);
    else
        reply_hold_of_one(request, status, result);
}

/* --- a lease that holds nothing ----------------------------------------------------------- */

static json_t *state_json(const struct lease_request *request, const char *state)
{
    json_t *body = names_member(request);

    json_object_set_new(body, "lease_id", json_string(request->lease.id));
    json_object_set_new(body, "state", json_string(state));
    return body;
}

static void reply_released_lock(struct lease_request *request,
                                const struct lease_result *result)
{
    struct json_text body;

    json_text_begin(&body);
    json_text_string(&body, kind_of(request)->member, lease_name(&request->lease));
    json_text_string(&body, "lease_id", request->lease.id);
    json_text_string(&body, "state", "released");
    json_text_integer(&body, "hold_count", result->holds_left);
    http_reply_written(request->http, 200, &body);
}

void lease_reply_released(struct lease_request *request, const struct lease_result *result)
{
    if (kind_of(request)->family == FAMILY_LOCK) {
        reply_released_lock(request, result);
        return;
    }
    json_t *body = state_json(request, "released");
    if (lease_is_set(&request->lease))
        json_object_set_new(body, "hold_count", json_integer(result->holds_left));
    http_reply_json(request->http, 200, body);
}

void lease_reply_waiting(struct lease_request *request)
{
    http_reply_json(request->http, 200, state_json(request, "waiting"));
}

/* --- failures ----------------------------------------------------------------------------- */

void reply_many_readers(struct http_request *http)
{
    problem_reply(http, PROBLEM_LIMIT_REACHED, json_pack("{s:i}", "limit", GRANT_READERS_MAX),
                  "the lock has more readers than a search for a fencing token looks at");
}

void reply_retry_after(struct http_request *http, json_t *members, int64_t remaining_ms)
{
    int64_t retry_ms = remaining_ms;
    char seconds[24];

    if (retry_ms < 0 || retry_ms > RETRY_AFTER_MAX_MS)
        retry_ms = RETRY_AFTER_MAX_MS;
    if (retry_ms < RETRY_AFTER_MIN_MS)
        retry_ms = RETRY_AFTER_MIN_MS;
    snprintf(seconds, sizeof(seconds), "%" PRId64, (retry_ms + 999) / 1000);
    http_reply_header(http, "Retry-After", seconds);
    json_object_set_new(members, "retry_after_ms", json_integer(retry_ms));
    if (remaining_ms >= 0)
        json_object_set_new(members, "remaining_ms", json_integer(remaining_ms));
}

const char *lease_blocking_name(const struct lease *lease, const struct lease_result *result)
{
    size_t index = result->blocking_index;

    return lease->names->name[index >= 1 && index <= lease->names->count ? index - 1 : 0];
}

static const char *why_busy(enum kind_family family, const struct lock_holder *holder)
{
    if (family == FAMILY_PERMIT)
        return "there are not enough free permits";
    if (holder != NULL && holder->field[0] != '\0' && holder->hold_count == 0)
        return "the lock is free, and kept for the first place of its queue";
    return "another holder has the lock";
}

void lease_reply_busy(struct lease_request *request, const struct lease_result *result,
                      const struct deadlock *deadlock)
{
    const struct kind_row *single = kind_row(kind_of(request)->single);
    const char *blocking = lease_blocking_name(&request->lease, result);
    json_t *members = json_pack("{s:s}", single->member, blocking);

    reply_retry_after(request->http, members, result->remaining_ms);
    if (result->holder != NULL && result->holder->field[0] != '\0')
        json_object_set_new(members, "holder",
                            holder_json(request->context, blocking, result->holder));
    json_object_set_new(members, "deadlock", deadlock_shown(request->http, deadlock));
    problem_reply(request->http, PROBLEM_LOCKED, members, "%s",
                  why_busy(single->family, result->holder));
}

void lease_reply_no_semaphore(struct lease_request *request)
{
    json_t *members = names_member(request);

    reply_retry_after(request->http, members, -1);
    problem_reply(request->http, PROBLEM_LOCKED, members,
                  "there is no such semaphore yet: PUT makes it");
}

static const char *why_ended(const struct lease_request *request, const char *reason)
{
    const char *token = http_header(request->http, HTTP_LEASE_TOKEN);
    bool is_known = strcmp(reason, "unknown") != 0;

    if (!is_known && token != NULL && token_is_public_id(token))
        return "rlockd knows no lease of this token: it looks like a lease_id; the token is "
               "the UUID with which the lease was acquired";
    if (!is_known && request->acquired != NULL)
        return "this token is spent: it was released before it acquired a lease, or its lease "
               "ended long ago: use a new token";
    if (!is_known)
        return "rlockd knows no lease of this token: there was none, or it ended long ago";
    return "this lease has ended, and its token is spent: use a new token";
}

static void reply_ended(struct lease_request *request, const struct lease_result *result)
{
    json_t *members = names_member(request);

    json_object_set_new(members, "lease_id", json_string(request->lease.id));
    json_object_set_new(members, "reason", json_string(result->reason));
    if (result->forced_by != NULL)
        set_text(members, "forced_by", result->forced_by);
    if (result->forced_reason != NULL)
        set_text(members, "forced_reason", result->forced_reason);
    problem_reply(request->http, PROBLEM_LEASE_ENDED, members, "%s",
                  why_ended(request, result->reason));
}

/* NULL where the path says which lock it is about. */
static json_t *blocking_member(const struct lease_request *request,
                               const struct lease_result *result)
{
    if (!lease_is_set(&request->lease) || request->lease.names == NULL ||
        result->blocking_index == 0)
        return NULL;
    return json_pack("{s:s}", "lock", lease_blocking_name(&request->lease, result));
}

void lease_reply_failure(struct lease_request *request, const struct lease_result *result)
{
    struct http_request *http = request->http;

    switch (result->outcome) {
    case LEASE_BUSY:
        lease_reply_busy(request, result, NULL);
        return;
    case LEASE_ENDED:
        reply_ended(request, result);
        return;
    case LEASE_SESSION_ENDED:
        problem_reply(http, PROBLEM_SESSION_ENDED, json_pack("{s:s}", "reason", result->reason),
                      "the session of this lease has ended: open a new one");
        return;
    case LEASE_SESSION_FULL:
        problem_reply(http, PROBLEM_LIMIT_REACHED,
                      json_pack("{s:i}", "limit", SESSION_LOCKS_MAX),
                      "the leases of this session have as many locks as they may have");
        return;
    case LEASE_TOO_MANY:
        problem_reply(http, PROBLEM_TOO_MANY_WAITERS, blocking_member(request, result),
                      "too many requests wait for this %s already",
                      kind_of(request)->family == FAMILY_PERMIT ? "semaphore" : "lock");
        return;
    case LEASE_MANY_READS:
        problem_reply(http, PROBLEM_LIMIT_REACHED, blocking_member(request, result),
                      "this owner has as many reads of this lock as it may have");
        return;
    case LEASE_REUSED:
        problem_reply(
            http, PROBLEM_TOKEN_REUSED, NULL,
            "Lease-Token: this token was used for another kind, owner or session, or for "
            "another set of locks: use a new token");
        return;
    case LEASE_WRONG_KIND:
        problem_reply(http, PROBLEM_WRONG_KIND, blocking_member(request, result),
                      "this name is in use in Redis as another kind of object");
        return;
    case LEASE_UPGRADE:
        problem_reply(http, PROBLEM_WRONG_KIND, blocking_member(request, result),
                      "kind: this owner holds a read lease of this lock, so it would wait for "
                      "itself: release the read lease first");
        return;
    case LEASE_FAILED:
        reply_unavailable(http, result->failure);
        return;
    case LEASE_GRANTED:
    case LEASE_HELD:
    case LEASE_RELEASED:
        break; /* no failures */
    }
    reply_unavailable(http, CALL_UNKNOWN);
}

void lease_reply_not_acquired(struct lease_request *request, enum try_outcome outcome)
{
    struct http_request *http = request->http;

    switch (outcome) {
    case TRY_TOO_MANY_WAITERS:
        problem_reply(http, PROBLEM_TOO_MANY_WAITERS, NULL,
                      "too many requests wait at this front end already");
        return;
    case TRY_MAY_NOT_WAIT:
        problem_reply(http, PROBLEM_LIMIT_REACHED, NULL,
                      "this API token has as many waiting requests as it may have");
        return;
    case TRY_DRAINING:
        problem_reply(
            http, PROBLEM_DRAINING, json_pack("{s:s}", "outcome", "not-executed"),
            "this front end is shutting down: repeat the request, best at another one");
        return;
    case TRY_NOT_EXECUTED:
        reply_unavailable(http, CALL_NOT_EXECUTED);
        return;
    case TRY_GRANTED:
    case TRY_CONFIRMED:
    case TRY_BUSY:
    case TRY_REFUSED:
    case TRY_DEADLOCK:
    case TRY_UNKNOWN:
        break;
    }
    reply_unavailable(http, CALL_UNKNOWN);
}
