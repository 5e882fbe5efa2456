/* HTTP for one worker: the worker's event loop runs libmicrohttpd (in its external epoll mode),
 * hands requests to the handlers of a route table, and sends answers now or later.
 *
 * A request that is answered within milliseconds never suspends its connection. The connection
 * of a request that waits longer is suspended, and its socket is watched for a hang-up, which
 * libmicrohttpd does not do for suspended connections. */
#ifndef RLOCKD_SERVER_HTTP_HTTP_H
#define RLOCKD_SERVER_HTTP_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/json_text.h"
#include "server/base/log.h"
#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "server/http/route.h"

struct addresses;
struct auth_source;
struct origin_rules;
struct proxies;
struct auth_caller;
struct http_server;
struct http_request;

enum {
    HTTP_BODY_MAX = 16 * 1024, /* the API's largest useful body is under 1 KiB */
    HTTP_NAME_MAX = 512        /* bytes of a name after decoding */
};

struct http_options {
    int listen_fd;            /* listening, non-blocking; taken over */
    bool socket_is_inherited; /* connections that wait in the kernel are left to a successor */
    int max_connections;
    struct addresses *addresses;
    const struct route *routes;
    size_t route_count;
    void *context;                         /* the value of http_context() for the handlers */
    const struct proxies *trusted_proxies; /* NULL: none */
    const struct origin_rules *origins;
    bool is_quorum;           /* routes with a reason in `not_in_quorum` are refused */
    struct auth_source *auth; /* NULL: no API tokens */
    struct loop *loop;
    struct metrics *metrics;
    struct log_buffer *log;
};

/* NULL after one log line. The options' pointers must outlive the server. Connections wait in
 * the kernel until http_open(). */
struct http_server *http_start(const struct http_options *options);
void http_open(struct http_server *server);
/* From now on every answer closes its connection. New connections are still accepted, so that a
 * release that is under way gets through. */
void http_drain(struct http_server *server);
/* From now on new connections are refused, or left to a successor; open ones are served. Once,
 * after http_drain(). */
void http_close_door(struct http_server *server);
/* Whole requests that are not answered yet, or answered and not sent yet. */
size_t http_busy(const struct http_server *server);
/* Closes all connections and frees the server. Every handler must have answered before. */
void http_stop(struct http_server *server);

/* --- reading a request ------------------------------------------------------------------- */

/* Headers that handlers may ask for. */
enum http_header {
    HTTP_LEASE_TOKEN,
    HTTP_SESSION_TOKEN,
    HTTP_IDEMPOTENCY_KEY,
    HTTP_IF_MATCH,
    HTTP_AUTHORIZATION,
    HTTP_CONTENT_TYPE,
    HTTP_HOST,
    /* The headers before this may occur once. Of these the last value counts. */
    HTTP_REQUEST_ID,
    HTTP_TRACEPARENT,
    HTTP_ORIGIN,
    HTTP_SEC_FETCH_SITE,
    HTTP_SEC_FETCH_DEST,
    HTTP_FLEET_LOCK_PROTOCOL,
    /* Lists: several lines of a header are one value, with ", " between them. */
    HTTP_PREFER,
    HTTP_X_FORWARDED_FOR,
    HTTP_FORWARDED,
    HTTP_ACCEPT,
    HTTP_IF_NONE_MATCH,
    HTTP_HEADER_COUNT
};

void *http_context(const struct http_request *request);
/* The value lives until the handler's first call returns: copy a value that is needed later.
 * NULL: the header was not sent. */
const char *http_header(const struct http_request *request, enum http_header header);
/* The i-th path parameter, decoded: 1 to HTTP_NAME_MAX bytes of UTF-8 without control
 * characters. */
const char *http_param(const struct http_request *request, size_t i);
/* `subject` of the request's route. */
int http_subject(const struct http_request *request);
/* `dialect` of the request's route; rlockd's own where none was found. */
enum route_dialect http_dialect(const struct http_request *request);
/* The raw query, "" when there is none. */
const char *http_query(const struct http_request *request);
const char *http_body(const struct http_request *request, size_t *len);
/* Who calls; NULL where no API tokens are configured. */
const struct auth_caller *http_caller(const struct http_request *request);
/* The right that a caller needs for the request, by the table of routes. */
enum auth_verb http_access(const struct http_request *request);
/* When the first byte after the request line was there, as clock_ns(). */
int64_t http_received_ns(const struct http_request *request);

/* Cleared memory that stays as long as the request: until its `end`, or without http_watch()
 * until it is answered. */
void *http_memory(struct http_request *request, size_t size);

/* --- answering a request ------------------------------------------------------------------ */

/* Every request that was handed to a handler is ended by exactly one http_reply…() or
 * http_drop(). Its answer is dropped silently when the client has gone. */

/* Whether an answer of so many bytes may be given now: a few large answers may wait for their
 * clients to read them. */
bool http_may_answer(struct http_request *request, size_t len);

/* `body` is ended, and its text taken over. */
void http_reply_written(struct http_request *request, int status, struct json_text *body);
/* `body` is taken over. */
void http_reply_json(struct http_request *request, int status, json_t *body);
/* As http_reply_json(), as application/problem+json, or as the route's dialect has it. */
void http_reply_problem(struct http_request *request, int status, json_t *body);
/* `text` is copied. */
void http_reply_text(struct http_request *request, int status, const char *content_type,
                     const char *text, size_t len);
/* `text` outlives the server: it is not copied. */
void http_reply_static(struct http_request *request, int status, const char *content_type,
                       const char *text, size_t len);
/* Adds a header to the answer to come. `name` must be a literal; `value` is copied. */
void http_reply_header(struct http_request *request, const char *name, const char *value);
bool http_reply_has_header(const struct http_request *request, const char *name);
/* Ends a request whose client has gone without an answer; closes the connection. */
void http_drop(struct http_request *request);

/* Says that the answer will take long: suspends the connection now instead of a little later.
 * The handler has read the body by then, which is forgotten.
 * False: the caller's API token allows no more requests that wait. */
bool http_suspend(struct http_request *request) __attribute__((warn_unused_result));
/* Refuses a caller without the right `verb` (403). `detail` names the forbidden operation. */
void http_forbid(struct http_request *request, enum auth_verb verb, const char *detail);
/* Refuses a request that has no user name (401), and asks for it as Basic sends it. */
void http_ask_user(struct http_request *request, const char *detail);

/* `gone` comes at most once, when the client hung up before it was answered; the handler still
 * has to end the request. `end` comes exactly once, last of all: `delivered` says whether the
 * whole answer went to the kernel. */
void http_watch(struct http_request *request, void (*gone)(void *arg),
                void (*end)(void *arg, bool delivered), void *arg);

/* Add a member to the request's log line, instead of an earlier member of that name. They do
 * nothing where requests are not logged. `name` is a literal that needs no escapes; `value` is
 * copied, or taken over, and is never a token. */
void http_log_text(struct http_request *request, const char *name, const char *value);
void http_log_integer(struct http_request *request, const char *name, int64_t value);
void http_log_json(struct http_request *request, const char *name, json_t *value);
/* Puts the line into the audit trail: "audit":true. */
void http_log_audit(struct http_request *request);

#endif
