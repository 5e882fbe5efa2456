/* A request about a lease, a semaphore or a latch, from its arrival until its answer is on its
 * way: how its path, headers and fields are read, and how the request waits. */
#ifndef RLOCKD_HANDLERS_LEASE_REQUEST_H
#define RLOCKD_HANDLERS_LEASE_REQUEST_H

#include <stdbool.h>

#include "handlers/context.h"
#include "server/http/request.h"
#include "storage/store/lease.h"
#include "storage/wait/acquire.h"

/* Lives as long as the HTTP request. */
struct lease_request {
    struct handler_context *context;
    struct http_request *http;
    struct acquisition *acquisition; /* NULL: none is under way */
    void (*acquired)(struct lease_request *request, const struct acquire_result *result);
    void (*send)(struct lease_request *request); /* once the names of a set are known */
    void (*forced)(struct lease_request *request, bool unlocked); /* after a force-unlock */
    void *own;                                                    /* of the handler */
    bool granted; /* to be withdrawn if the client does not get the answer */
    bool gone;    /* the client hung up before it was answered */
    bool show_token;
    char token[TOKEN_TEXT_SIZE];
    struct lease lease;
};

struct lease_request *lease_request_new(struct http_request *http, enum object_kind kind);

/* Each of these functions reads one part of the request into the lease. False: the request was
 * refused. */

/* The name in the path. */
bool lease_request_name(struct lease_request *request) __attribute__((warn_unused_result));
/* The Lease-Token: lease id and attempt. One that is not `required` and not sent is made. */
bool lease_request_token(struct lease_request *request, bool required)
    __attribute__((warn_unused_result));
/* The token of a client that has `client_id` instead of a Lease-Token, for the object whose
 * name is known. */
void lease_request_client(struct lease_request *request, const char *client_id);
/* A lease without a token on the object whose name is known: its note, which only the server
 * writes, is its key. */
void lease_request_note(struct lease_request *request, const char *note);
/* The Session-Token, if there is one. */
/* False: the server's Redis is a quorum, and `why_not`, the detail of the problem, is not NULL.
 */
bool lease_request_offered(struct lease_request *request, const char *why_not);
bool lease_request_session(struct lease_request *request) __attribute__((warn_unused_result));
/* The Idempotency-Key, if there is one. `always`: without a key in the request the server makes
 * one, so that the request can be withdrawn. */
bool lease_request_key(struct lease_request *request, bool always)
    __attribute__((warn_unused_result));

/* Refuses a name that is reserved for keys of our own or of Redisson. */
bool lease_request_check_name(struct http_request *http, const char *field, const char *name)
    __attribute__((warn_unused_result));

/* Refuses names whose keys one script cannot reach. */
bool lease_request_check_slot(struct http_request *http, const char *field,
                              const char *const *names, size_t count)
    __attribute__((warn_unused_result));

/* The fields of all these requests, in the order of lease_field. */
struct lease_fields {
    struct field_boolean create;
    struct field_integer permits, wait_ms, ttl_ms;
    struct field_text note, kind, owner;
    struct field_names locks;
};

enum lease_field {
    LEASE_FIELD_CREATE,
    LEASE_FIELD_PERMITS,
    LEASE_FIELD_WAIT,
    LEASE_FIELD_TTL,
    LEASE_FIELD_NOTE,
    LEASE_FIELD_KIND,
    LEASE_FIELD_OWNER,
    LEASE_FIELD_LOCKS
};

/* Reads the fields `first` to `last`; refuses any other field. False: the request was
 * refused. */
bool lease_request_fields(struct lease_request *request, enum lease_field first,
                          enum lease_field last, struct lease_fields *fields)
    __attribute__((warn_unused_result));
/* wait_ms and ttl_ms from the query alone: the body is the handler's own. */
bool lease_request_query(struct lease_request *request, struct lease_fields *fields)
    __attribute__((warn_unused_result));
/* Refuses (403) a lease or session that is longer than the caller's API token allows. */
bool lease_request_check_ttl(struct http_request *http, int64_t ttl_ms)
    __attribute__((warn_unused_result));
/* The TTL, or that of the watchdog, if the caller may ask for so long a lease. `watchdog`:
 * whether a lease without a TTL of its own is renewed by it. False: the request was refused. */
bool lease_request_set_ttl(struct lease_request *request, const struct field_integer *ttl_ms,
                           bool watchdog) __attribute__((warn_unused_result));

/* Acquires the object, and waits up to `wait_ms`, or without that field for the `wait` of the
 * client's Prefer header (RFC 7240), at most --max-wait-ms. `acquired` answers the request. */
void lease_request_acquire(struct lease_request *request, const struct field_integer *wait_ms,
                           void (*acquired)(struct lease_request *request,
                                            const struct acquire_result *result));

/* Releases the lease, and answers the request: leases_change.c. */
void lease_request_release(struct lease_request *request);

#endif
