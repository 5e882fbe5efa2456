/* POST /v1/locks/{name}/force-unlock. */
#include <stdio.h>
#include <string.h>

#include "handlers/lease_reply.h"
#include "handlers/lease_request.h"
#include "handlers/locks_operator.h"
#include "handlers/routes.h"
#include "server/base/log.h"
#include "server/base/text.h"
#include "server/http/problem.h"
#include "server/http/request.h"
#include "storage/look/grant_find.h"
#include "storage/look/locks.h"

void locks_reply_forced(struct lease_request *request, bool unlocked)
{
    http_reply_json(
        request->http, 200,
        json_pack("{s:s, s:b}", "lock", lease_name(&request->lease), "unlocked", unlocked));
}

/* `former_holder`: as it stands in Redis, where a key may hold any bytes. */
static void log_forced(const struct lease_request *request, const char *former_holder)
{
    const struct lease *lease = &request->lease;
    const char *caller = lease->caller[0] != '\0' ? lease->caller : NULL;
    const char *reason = lease->note[0] != '\0' ? lease->note : NULL;

    if (!text_is_utf8(former_holder, strlen(former_holder)))
        former_holder = NULL;
    log_write(LOG_LEVEL_WARN, "lock forced open",
              json_pack("{s:s*, s:s*, s:s*, s:s*, s:b}", "lock", lease_name(lease), "caller",
                        caller, "reason", reason, "former_holder", former_holder, "audit", 1));
}

/* A request that may have freed the lock is in the audit trail, too: its repetition finds the
 * lock free, and says nothing of this operator. `reason` of the line is that of the problem. */
static void log_unknown(const struct lease_request *request, enum call_outcome failure)
{
    if (!call_is_unknown(failure))
        return;
    http_log_audit(request->http);
    if (request->lease.note[0] != '\0')
        http_log_text(request->http, "forced_reason", request->lease.note);
}

static void on_forced(void *arg, const struct force_result *result)
{
    struct lease_request *request = arg;

    switch (result->outcome) {
    case FORCE_UNLOCKED:
        log_forced(request, result->holder);
        request->forced(request, true);
        return;
    case FORCE_FREE:
        request->forced(request, false);
        return;
    case FORCE_STALE:
        problem_reply(request->http, PROBLEM_PRECONDITION_FAILED, NULL,
                      "the lock is free, or held by another grant");
        return;
    case FORCE_WRONG_KIND:
        problem_reply(request->http, PROBLEM_WRONG_KIND, NULL,
                      "this name is in use in Redis as another kind of object");
        return;
    case FORCE_MANY_READERS:
        reply_many_readers(request->http);
        return;
    case FORCE_FAILED:
        log_unknown(request, result->failure);
        reply_unavailable(request->http, result->failure);
        return;
    }
}

void locks_force(struct lease_request *request, const char *only,
                 void (*forced)(struct lease_request *request, bool unlocked))
{
    const struct force_order order = {
        .only = only, .caller = request->lease.caller, .reason = request->lease.note};

    request->forced = forced;
    lock_force(request->context->store, lease_name(&request->lease), &order, on_forced,
               request);
}

/* The entity tag of If-Match (RFC 9110 §13.1.1) is a fencing token in quotes, or `*`. False:
 * refused. */
static bool read_if_match(struct http_request *http, char only[FENCING_TOKEN_SIZE])
{
    const char *tag = http_header(http, HTTP_IF_MATCH);

    only[0] = '\0';
    if (tag == NULL)
        return true;
    if (strcmp(tag, "*") == 0) {
        memcpy(only, "*", 2);
        return true;
    }
    size_t len = strlen(tag);
    if (len >= 3 && len - 2 < FENCING_TOKEN_SIZE && tag[0] == '"' && tag[len - 1] == '"' &&
        strspn(tag + 1, "0123456789") == len - 2) {
        memcpy(only, tag + 1, len - 2);
        only[len - 2] = '\0';
        return true;
    }
    problem_reply(http, PROBLEM_MALFORMED_REQUEST, NULL,
                  "If-Match: not * and not one fencing token in quotes");
    return false;
}

struct force_fields {
    struct field_text reason;
};

static const struct field force_fields[] = {
    {"reason", FIELD_TEXT, offsetof(struct force_fields, reason), 0, LOCK_NOTE_SIZE - 1},
};

void locks_force_unlock(struct http_request *http)
{
    struct lease_request *request = lease_request_new(http, KIND_LOCK);
    struct force_fields fields = {0};
    char only[FENCING_TOKEN_SIZE];

    if (!lease_request_name(request) || !request_fields(http, force_fields, 1, &fields) ||
        !read_if_match(http, only))
        return;
    memcpy(request->lease.note, fields.reason.text, sizeof(request->lease.note));
    locks_force(request, only, locks_reply_forced);
}
