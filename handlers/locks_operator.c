/* POST /v1/locks/{name}/force-unlock. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/locks.h"
#include "handlers/routes.h"
#include "server/log.h"
#include "server/problem.h"
#include "server/request.h"

enum { FENCING_TOKEN_SIZE = 24 };

struct force_request {
    struct http_request *request;
    char name[LOCK_NAME_SIZE];
    char caller[65];
};

static void reply(struct force_request *force, bool unlocked)
{
    http_reply_json(force->request, 200,
                    json_pack("{s:s, s:b}", "lock", force->name, "unlocked", unlocked));
}

static void on_forced(void *arg, const struct lock_result *result)
{
    struct force_request *force = arg;

    if (result->outcome == LOCK_UNLOCKED) {
        log_write(LOG_LEVEL_WARN, "lock forced open",
                  json_pack("{s:s*, s:s*}", "lock", force->name, "caller",
                            force->caller[0] ? force->caller : NULL));
        reply(force, true);
    } else if (result->outcome == LOCK_FREE) {
        reply(force, false);
    } else if (result->outcome == LOCK_STALE) {
        problem_reply(force->request, PROBLEM_PRECONDITION_FAILED, NULL,
                      "If-Match: another grant, or nobody, holds the lock");
    } else {
        const struct lease none = {0};
        locks_reply_failure(force->request, &none, result);
    }
    free(force);
}

/* The entity tag of If-Match (RFC 9110 §13.1.1) is a fencing token in quotes, or `*`. False:
 * refused. */
static bool read_if_match(struct http_request *request, char only[FENCING_TOKEN_SIZE])
{
    const char *tag = http_header(request, HTTP_IF_MATCH);

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
    problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                  "If-Match: not * and not one fencing token in quotes");
    return false;
}

void locks_force_unlock(struct http_request *request)
{
    struct service *service = http_service(request);
    char only[FENCING_TOKEN_SIZE], name[LOCK_NAME_SIZE];

    if (!locks_read_name(request, name) || !request_no_fields(request) ||
        !read_if_match(request, only))
        return;
    struct force_request *force = calloc(1, sizeof(*force));
    assert(force != NULL);
    force->request = request;
    memcpy(force->name, name, sizeof(name));
    if (http_caller(request) != NULL)
        memcpy(force->caller, auth_caller_name(http_caller(request)),
               strlen(auth_caller_name(http_caller(request))) + 1);
    lock_force(service->store, force->name, only, on_forced, force);
}
