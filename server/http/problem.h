/* Every error answer of rlockd: RFC 9457 problem details, from one table. */
#ifndef RLOCKD_SERVER_HTTP_PROBLEM_H
#define RLOCKD_SERVER_HTTP_PROBLEM_H

#include <jansson.h>

struct http_request;

enum problem {
    PROBLEM_MALFORMED_REQUEST,
    PROBLEM_UNAUTHENTICATED,
    PROBLEM_FORBIDDEN,
    PROBLEM_NOT_FOUND,
    PROBLEM_METHOD_NOT_ALLOWED,
    PROBLEM_WRONG_KIND,
    PROBLEM_FENCING_TOKEN_STALE,
    PROBLEM_LOCK_EXISTS, /* the 423 of Git LFS, whose clients take 409 only */
    PROBLEM_LEASE_ENDED,
    PROBLEM_SESSION_ENDED,
    PROBLEM_LENGTH_REQUIRED,
    PROBLEM_PRECONDITION_FAILED,
    PROBLEM_TOO_LARGE,
    PROBLEM_UNSUPPORTED_MEDIA_TYPE,
    PROBLEM_TOKEN_REUSED,
    PROBLEM_STATE_OF_WRONG_KIND, /* PROBLEM_WRONG_KIND of Terraform, which takes every 409 for a
                                    lock that is held */
    PROBLEM_LOCKED,
    PROBLEM_DEADLOCK,
    PROBLEM_TOO_MANY_WAITERS,
    PROBLEM_LIMIT_REACHED,
    PROBLEM_HEADERS_TOO_LARGE,
    PROBLEM_NOT_SUPPORTED,
    PROBLEM_REDIS_UNAVAILABLE,
    PROBLEM_DRAINING,
    PROBLEM_COUNT
};

/* Ends the request with this problem. `members` (or NULL) are added to the body and taken over;
 * `detail` is a printf format for one sentence to the caller. Adds Retry-After where the
 * problem may pass by itself, unless the caller has set it. */
void problem_reply(struct http_request *request, enum problem problem, json_t *members,
                   const char *detail, ...) __attribute__((format(printf, 4, 5)));

#endif
