/* Reads requests about leases, semaphores and latches, and lets them wait. */
#include "handlers/lease_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/token.h"
#include "server/auth/auth.h"
#include "server/http/problem.h"
#include "storage/store/key.h"
#include "storage/lease/withdraw.h"

_Static_assert((int)LEASE_CALLER_SIZE == (int)AUTH_CALLER_SIZE, "a record names any caller");

/* --- life --------------------------------------------------------------------------------- */

/* The client hung up before it had an answer. */
static void on_gone(void *arg)
{
    struct lease_request *request = arg;

    request->gone = true;
    if (request->acquisition == NULL)
        return; /* its answer is on its way, and on_end() looks after a grant */
    acquire_cancel(request->acquisition);
    request->acquisition = NULL;
    http_drop(request->http);
}

static void on_end(void *arg, bool delivered)
{
    struct lease_request *request = arg;

    if (request->granted && (request->gone || !delivered))
        lease_withdraw(request->context->store, &request->lease, WITHDRAW_PLACE);
    lock_names_unref(request->lease.names);
}

struct lease_request *lease_request_new(struct http_request *http, enum object_kind kind)
{
    struct lease_request *request = http_memory(http, sizeof(*request));

    request->context = http_context(http);
    request->http = http;
    request->lease.kind = kind;
    if (http_caller(http) != NULL) {
        const char *caller = auth_caller_name(http_caller(http));
        memcpy(request->lease.caller, caller, strlen(caller) + 1); /* see the assertion above */
    }
    http_watch(http, on_gone, on_end, request);
    return request;
}

/* --- reading ------------------------------------------------------------------------------ */

/* In a Redis Cluster one script serves keys of one slot. */
bool lease_request_check_slot(struct http_request *http, const char *field,
                              const char *const *names, size_t count)
{
    const struct handler_context *context = http_context(http);

    switch (store_check_names(context->store, names, count)) {
    case NAMES_FIT:
        return true;
    case NAMES_HAVE_UNMATCHED_BRACES:
        problem_reply(
            http, PROBLEM_MALFORMED_REQUEST, NULL,
            "%s: the name has braces that are not a pair around some text: in a Redis "
            "Cluster the keys of the lock would be in several slots",
            field);
        return false;
    case NAMES_ARE_IN_SEVERAL_SLOTS:
        problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                      "%s: the names are in several slots of the Redis Cluster: names that are "
                      "locked at once need the same {tag}",
                      field);
        return false;
    }
    return true;
}

bool lease_request_check_name(struct http_request *http, const char *field, const char *name)
{
    const struct handler_context *context = http_context(http);

    if (!key_is_reserved(context->config->key_prefix, name))
        return lease_request_check_slot(http, field, &name, 1);
    problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                  "%s: names that begin with " KEY_PREFIX_OWN " or " KEY_PREFIX_REDISSON
                  ", or look like {name}:timeout or {name}:...:rwlock_timeout:1, are taken by "
                  "keys of locks",
                  field);
    return false;
}

bool lease_request_name(struct lease_request *request)
{
    const char *name = http_param(request->http, 0);

    request->lease.names = lock_names_of_one(name);
    return lease_request_check_name(request->http, "name", name);
}

/* The lease has its id. */
static void begin_attempt(struct lease_request *request)
{
    struct lease *lease = &request->lease;

    store_attempt_id(request->context->store, lease->attempt);
    http_log_text(request->http, "lease_id", lease->id);
}

/* Of the token. */
static void set_lease_id(struct lease_request *request)
{
    token_lease_id(request->token, request->lease.id);
    begin_attempt(request);
}

bool lease_request_token(struct lease_request *request, bool required)
{
    struct lease *lease = &request->lease;
    char *token = request->token;

    if (!request_token(request->http, HTTP_LEASE_TOKEN, "Lease-Token", required, token))
        return false;
    lease->token = TOKEN_RECORDED;
    if (token[0] == '\0') {
        token_make(token);
        lease->token = TOKEN_FRESH;
        lease->unrepeatable = true;
        request->show_token = true;
    } else if (token_is_server_made(token)) {
        lease->token = TOKEN_RETURNED;
    }
    set_lease_id(request);
    return true;
}

void lease_request_client(struct lease_request *request, const char *client_id)
{
    token_of_client(lease_name(&request->lease), client_id, request->token);
    request->lease.token = TOKEN_RECORDED;
    set_lease_id(request);
}

void lease_request_note(struct lease_request *request, const char *note)
{
    struct lease *lease = &request->lease;

    snprintf(lease->note, sizeof(lease->note), "%s", note);
    token_id_of_note(lease_name(lease), lease->note, lease->id);
    lease->token = TOKEN_RECORDED;
    lease->unrepeatable = true;
    begin_attempt(request);
}

bool lease_request_offered(struct lease_request *request, const char *why_not)
{
    if (!request->context->is_quorum || why_not == NULL)
        return true;
    problem_reply(request->http, PROBLEM_NOT_SUPPORTED, NULL, "%s", why_not);
    return false;
}

bool lease_request_session(struct lease_request *request)
{
    struct lease *lease = &request->lease;
    char token[TOKEN_TEXT_SIZE];

    if (!request_token(request->http, HTTP_SESSION_TOKEN, "Session-Token", false, token))
        return false;
    if (token[0] == '\0')
        return true;
    token_session_id(token, lease->session_id);
    http_log_text(request->http, "session_id", lease->session_id);
    if (lease->token == TOKEN_FRESH)
        lease->token = TOKEN_RECORDED; /* that is where the session finds it */
    return true;
}

bool lease_request_key(struct lease_request *request, bool always)
{
    char *key = request->lease.id;

    if (!request_token(request->http, HTTP_IDEMPOTENCY_KEY, "Idempotency-Key", false, key))
        return false;
    request->lease.unrepeatable = key[0] == '\0';
    if (key[0] == '\0' && always)
        token_make(key);
    store_attempt_id(request->context->store, request->lease.attempt);
    return true;
}

static const struct field lease_fields[] = {
    [LEASE_FIELD_CREATE] = {"create", FIELD_BOOLEAN, offsetof(struct lease_fields, create), 0,
                            0},
    [LEASE_FIELD_PERMITS] = {"permits", FIELD_INTEGER, offsetof(struct lease_fields, permits),
                             1, INT32_MAX},
    [LEASE_FIELD_WAIT] = {"wait_ms", FIELD_INTEGER, offsetof(struct lease_fields, wait_ms), 0,
                          INT64_MAX},
    [LEASE_FIELD_TTL] = {"ttl_ms", FIELD_INTEGER, offsetof(struct lease_fields, ttl_ms), 100,
                         CONFIG_LEASE_MAX_MS},
    [LEASE_FIELD_NOTE] = {"note", FIELD_TEXT, offsetof(struct lease_fields, note), 0,
                          LOCK_NOTE_SIZE - 1},
    [LEASE_FIELD_KIND] = {"kind", FIELD_TEXT, offsetof(struct lease_fields, kind), 1, 16},
    [LEASE_FIELD_OWNER] = {"owner", FIELD_TEXT, offsetof(struct lease_fields, owner), 1,
                           LOCK_OWNER_SIZE - 1},
    [LEASE_FIELD_LOCKS] = {"locks", FIELD_NAMES, offsetof(struct lease_fields, locks), 1,
                           LOCKS_MAX},
};

bool lease_request_fields(struct lease_request *request, enum lease_field first,
                          enum lease_field last, struct lease_fields *fields)
{
    return request_fields(request->http, &lease_fields[first], last - first + 1, fields) &&
           request_wait_at_most(request->http, &fields->wait_ms,
                                request->context->config->max_wait_ms);
}

bool lease_request_query(struct lease_request *request, struct lease_fields *fields)
{
    enum { COUNT = LEASE_FIELD_TTL - LEASE_FIELD_WAIT + 1 };

    return request_query_fields(request->http, &lease_fields[LEASE_FIELD_WAIT], COUNT,
                                fields) &&
           request_wait_at_most(request->http, &fields->wait_ms,
                                request->context->config->max_wait_ms);
}

/* A server of a quorum that was restarted gives votes again when every lease that it may have
 * forgotten has ended. */
static bool check_quarantine(struct http_request *http, int64_t ttl_ms)
{
    const struct handler_context *context = http_context(http);
    int64_t max_ms = context->config->quarantine_ms;

    if (!context->is_quorum || ttl_ms <= max_ms)
        return true;
    problem_reply(
        http, PROBLEM_MALFORMED_REQUEST, json_pack("{s:I}", "limit", (json_int_t)max_ms),
        "ttl_ms: in a quorum no lease or session lasts for longer than --quarantine-ms, "
        "%" PRId64 " here: renew it",
        max_ms);
    return false;
}

bool lease_request_check_ttl(struct http_request *http, int64_t ttl_ms)
{
    const struct auth_caller *caller = http_caller(http);
    int64_t max_ms = caller != NULL ? auth_max_ttl_ms(caller) : INT64_MAX;

    if (ttl_ms <= max_ms)
        return check_quarantine(http, ttl_ms);
    problem_reply(http, PROBLEM_FORBIDDEN, json_pack("{s:I}", "limit", (json_int_t)max_ms),
                  "ttl_ms: %" PRId64 " is more than max-ttl-ms of this API token, %" PRId64,
                  ttl_ms, max_ms);
    return false;
}

bool lease_request_set_ttl(struct lease_request *request, const struct field_integer *ttl_ms,
                           bool watchdog)
{
    request->lease.watchdog = watchdog && !ttl_ms->given;
    request->lease.ttl_ms = ttl_ms->given ? ttl_ms->value
                                          : request->context->config->watchdog_timeout_ms;
    return lease_request_check_ttl(request->http, request->lease.ttl_ms);
}

/* --- acquiring ---------------------------------------------------------------------------- */

static int64_t wait_ms_of(struct lease_request *request, const struct field_integer *wait_ms)
{
    int64_t max_wait_ms = request->context->config->max_wait_ms;
    int64_t prefer_s = request_prefer_wait_s(request->http);
    char applied[32];

    if (wait_ms->given || prefer_s < 0)
        return wait_ms->value;
    int64_t preferred_ms = prefer_s < max_wait_ms / 1000 ? prefer_s * 1000 : max_wait_ms;
    snprintf(applied, sizeof(applied), "wait=%lld", (long long)(preferred_ms / 1000));
    http_reply_header(request->http, "Preference-Applied", applied);
    return preferred_ms;
}

static bool on_busy(void *arg)
{
    struct lease_request *request = arg;

    return http_suspend(request->http);
}

static void on_acquired(void *arg, const struct acquire_result *result)
{
    struct lease_request *request = arg;

    request->acquisition = NULL;
    request->granted = result->outcome == TRY_GRANTED;
    request->acquired(request, result);
}

void lease_request_acquire(struct lease_request *request, const struct field_integer *wait_ms,
                           void (*acquired)(struct lease_request *request,
                                            const struct acquire_result *result))
{
    static const struct acquire_result draining = {.outcome = TRY_DRAINING};

    if (request->gone) { /* while Redis was asked for something else: nobody would wait */
        http_drop(request->http);
        return;
    }
    struct handler_context *context = request->context;
    int64_t ms = wait_ms_of(request, wait_ms);
    int64_t deadline_ns = ms > 0 ? http_received_ns(request->http) + ms * CLOCK_NS_PER_MS : 0;

    request->acquired = acquired;
    if (ms > 0)
        http_log_integer(request->http, "wait_ms", ms);
    if (context->draining)
        acquired(request, &draining);
    else
        request->acquisition = acquire_start(context->acquirer, &request->lease, deadline_ns,
                                             on_busy, on_acquired, request);
}
