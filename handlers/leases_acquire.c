/* PUT and POST of locks and sets of locks, PUT of permits: acquire, wait, confirm. */
#include <string.h>

#include "handlers/deadlock_reply.h"
#include "handlers/lease_reply.h"
#include "handlers/lease_request.h"
#include "handlers/multi_locks.h"
#include "handlers/routes.h"
#include "server/http/problem.h"
#include "storage/look/permits_get.h"

/* The request was refused, because it waited in this deadlock. */
static void reply_deadlock(struct lease_request *request, const struct deadlock *deadlock)
{
    const struct lease *lease = &request->lease;
    json_t *members = json_object();

    json_object_set_new(members, kind_row(lease->kind)->member,
                        lease_is_set(lease) ? multi_locks_names_json(lease->names)
                                            : json_string(lease_name(lease)));
    json_object_set_new(members, "deadlock", deadlock_shown(request->http, deadlock));
    reply_retry_after(request->http, members, -1);
    problem_reply(request->http, PROBLEM_DEADLOCK, members,
                  "this request waited for a lock whose holder waits, perhaps by others, for a "
                  "lock of this session: release locks, then ask again");
}

void lease_reply_acquired(struct lease_request *request, const struct acquire_result *result)
{
    switch (result->outcome) {
    case TRY_GRANTED:
        lease_reply_hold(request, 201, result->lease);
        return;
    case TRY_CONFIRMED:
        metrics_add(request->context->metrics, METRIC_CONFIRMATIONS, 1);
        lease_reply_hold(request, 200, result->lease);
        return;
    case TRY_DEADLOCK:
        reply_deadlock(request, result->deadlock);
        return;
    case TRY_BUSY:
        lease_reply_busy(request, result->lease, result->deadlock);
        return;
    case TRY_REFUSED:
        lease_reply_failure(request, result->lease);
        return;
    case TRY_NOT_EXECUTED:
    case TRY_UNKNOWN:
        if (result->lease != NULL) {
            lease_reply_failure(request, result->lease);
            return;
        }
        break;
    case TRY_TOO_MANY_WAITERS:
    case TRY_MAY_NOT_WAIT:
    case TRY_DRAINING:
        break;
    }
    lease_reply_not_acquired(request, result->outcome);
}

/* --- locks -------------------------------------------------------------------------------- */

/* Lets the lease have a record from its grant on, if the record has something to keep. */
static void need_record(struct lease *lease)
{
    if (lease->token == TOKEN_FRESH)
        lease->token = TOKEN_RECORDED;
}

/* The kind that is asked for: of the lock, or of all locks of the set. False: refused. */
static bool read_kind(struct lease_request *request, const struct field_text *given)
{
    bool is_set = lease_is_set(&request->lease);
    enum object_kind kind = given->given ? kind_find(given->text) : KIND_LOCK;

    if (kind == KIND_NONE || kind_row(kind)->family != FAMILY_LOCK) {
        problem_reply(request->http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "kind: not one of lock, fair, read, write");
        return false;
    }
    if (is_set && kind_row(kind)->set == KIND_NONE) {
        /* With places in several queues, each of two sets could be first where the other is
         * second. */
        problem_reply(request->http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "kind: several locks at once are of kind lock, read or write, not fair");
        return false;
    }
    if (!lease_request_offered(request, kind_row(kind)->not_in_quorum))
        return false;
    request->lease.kind = is_set ? kind_row(kind)->set : kind;
    if (kind != KIND_LOCK || request->context->is_quorum)
        need_record(&request->lease);
    return true;
}

/* False: refused. */
static bool read_owner(struct lease_request *request, const struct field_text *owner)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    memcpy(request->lease.owner, owner->text, sizeof(request->lease.owner));
    if (!owner->given)
        return true;
    if (!lease_request_offered(request, "owner: a quorum has no reentrant locks yet, for the "
                                        "leases of an owner share one fencing token"))
        return false;
    if (request->lease.session_id[0] == '\0')
        problem_reply(request->http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "owner: only with a session: send its Session-Token");
    else if (owner->text[strspn(owner->text, allowed)] != '\0' ||
             strcmp(owner->text, "write") == 0) /* Redisson's suffix of a writer */
        problem_reply(request->http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "owner: not 1 to %d of A-Z a-z 0-9 . _ - (and not the word write)",
                      LOCK_OWNER_SIZE - 1);
    else
        return true;
    return false;
}

static void read_note(struct lease_request *request, const struct field_text *note)
{
    memcpy(request->lease.note, note->text, sizeof(request->lease.note));
    if (note->text[0] != '\0')
        need_record(&request->lease);
}

/* `last`: of the fields that the request may have. False: refused. */
static bool read_lease(struct lease_request *request, bool token_required,
                       enum lease_field last, struct lease_fields *fields)
{
    if (!lease_request_token(request, token_required) || !lease_request_session(request) ||
        !lease_request_fields(request, LEASE_FIELD_WAIT, last, fields) ||
        !read_kind(request, &fields->kind) || !read_owner(request, &fields->owner))
        return false;
    read_note(request, &fields->note);
    if (request->lease.caller[0] != '\0')
        need_record(&request->lease);
    return lease_request_set_ttl(request, &fields->ttl_ms,
                                 request->lease.session_id[0] != '\0');
}

static void acquire_lock(struct lease_request *request, bool token_required)
{
    struct lease_fields fields = {0};

    if (lease_request_name(request) &&
        read_lease(request, token_required, LEASE_FIELD_OWNER, &fields))
        lease_request_acquire(request, &fields.wait_ms, lease_reply_acquired);
}

static void acquire_set(struct lease_request *request, bool token_required)
{
    char names[LOCKS_MAX][FIELD_TEXT_SIZE];
    struct lease_fields fields = {.locks.names = names};

    if (!read_lease(request, token_required, LEASE_FIELD_LOCKS, &fields) ||
        !multi_locks_read(request, &fields.locks))
        return;
    need_record(&request->lease); /* it keeps the names */
    lease_request_acquire(request, &fields.wait_ms, lease_reply_acquired);
}

static void acquire(struct http_request *http, bool token_required)
{
    struct lease_request *request = lease_request_new(http, http_subject(http));

    if (lease_is_set(&request->lease))
        acquire_set(request, token_required);
    else
        acquire_lock(request, token_required);
}

void leases_put(struct http_request *http)
{
    acquire(http, true);
}

void leases_post(struct http_request *http)
{
    acquire(http, false);
}

/* --- permits ------------------------------------------------------------------------------ */

static void on_busy_got(void *arg, const struct permits_view *view)
{
    static const struct lease_result busy = {.outcome = LEASE_BUSY, .remaining_ms = -1};

    if (view->outcome == COUNTER_MISSING)
        lease_reply_no_semaphore(arg);
    else
        lease_reply_failure(arg, &busy);
}

/* Where no permit is held, and none is free: is there a semaphore? */
static void on_permit_acquired(struct lease_request *request,
                               const struct acquire_result *result)
{
    if (result->outcome == TRY_BUSY && result->lease->remaining_ms < 0)
        permits_get(request->context->store, lease_name(&request->lease), 0, on_busy_got,
                    request);
    else
        lease_reply_acquired(request, result);
}

void permits_put(struct http_request *http)
{
    struct lease_request *request = lease_request_new(http, KIND_PERMIT);
    struct lease_fields fields = {0};

    request->lease.permits = 1;
    if (!lease_request_name(request) || !lease_request_token(request, true) ||
        !lease_request_session(request) ||
        !lease_request_fields(request, LEASE_FIELD_WAIT, LEASE_FIELD_TTL, &fields) ||
        !lease_request_set_ttl(request, &fields.ttl_ms, request->lease.session_id[0] != '\0'))
        return;
    lease_request_acquire(request, &fields.wait_ms, on_permit_acquired);
}
