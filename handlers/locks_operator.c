/* POST /v1/locks/{name}/force-unlock. */
#include <stdio.h>
#include <string.h>

#include "handlers/lease_reply.h"
#include "handlers/lease_request.h"
#include "handlers/routes.h"
#include "server/base/log.h"
#include "server/http/problem.h"
#include "server/http/request.h"
#include "storage/look/grant_find.h"
#include "storage/look/locks.h"

static void reply(struct lease_request *request, bool unlocked)
{
    http_reply_json(
        request->http, 200,
        json_pack("{s:s, s:b}", "lock", lease_name(&request->lease), "unlocked", unlocked));
}

static void log_forced(const struct lease_request *request)
{
    const struct auth_caller *caller = http_caller(request->http);

    log_write(LOG_LEVEL_WARN, "lock forced open",
              json_pack("{s:s*, s:s*}", "lock", lease_name(&request->lease), "caller",
                        caller != NULL ? auth_caller_name(caller) : NULL));
}

static void on_forced(void *arg, const struct force_result *result)
{
    struct lease_request *request = arg;

    switch (result->outcome) {
    case FORCE_UNLOCKED:
        log_forced(request);
        reply(request, true);
        return;
    case FORCE_FREE:
        reply(request, false);
        return;
    case FORCE_STALE:
        problem_reply(request->http, PROBLEM_PRECONDITION_FAILED, NULL,
                      "If-Match: the lock is free, or held by another grant");
        return;
    case FORCE_WRONG_KIND:
        problem_reply(request->http, PROBLEM_WRONG_KIND, NULL,
                      "this name is in use in Redis as another kind of object");
        return;
    case FORCE_MANY_READERS:
        reply_many_readers(request->http);
        return;
    case FORCE_FAILED:
        reply_unavailable(request->http, result->failure);
        return;
    }
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

void locks_force_unlock(struct http_request *http)
{
    struct lease_request *request = lease_request_new(http, KIND_LOCK);
    char only[FENCING_TOKEN_SIZE];

    if (lease_request_name(request) && request_no_fields(http) && read_if_match(http, only))
        lock_force(request->context->store, lease_name(&request->lease), only, on_forced,
                   request);
}
