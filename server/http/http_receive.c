/* From the headers of a request to its handler; and the answers to the requests that a check
 * refuses. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/cors.h"
#include "server/http/http_internal.h"
#include "server/http/origin.h"
#include "server/http/problem.h"
#include "server/base/text.h"

/* --- refusals ----------------------------------------------------------------------------- */

static void refuse(struct http_request *request, const struct http_refusal *refusal)
{
    const char *verb = refusal->verb;

    if (verb != NULL) {
        http_log_text(request, "verb", verb);
        http_log_audit(request);
    }
    if (refusal->challenge != NULL)
        http_reply_header(request, "WWW-Authenticate", refusal->challenge);
    if (refusal->asks_basic)
        http_reply_header(request, "WWW-Authenticate",
                          "Basic realm=\"rlockd\", charset=\"UTF-8\"");
    problem_reply(request, refusal->problem,
                  verb != NULL ? json_pack("{s:s}", "verb", verb) : NULL, "%s",
                  refusal->detail);
}

void http_forbid(struct http_request *request, enum auth_verb verb, const char *detail)
{
    struct http_refusal refusal;

    http_refusal_forbid(&refusal, verb, detail);
    refuse(request, &refusal);
}

void http_ask_user(struct http_request *request, const char *detail)
{
    struct http_refusal refusal;

    http_refusal_ask_user(request, &refusal, detail);
    refuse(request, &refusal);
}

/* --- headers and body --------------------------------------------------------------------- */

bool http_receive_headers(struct http_request *request, const char *version)
{
    struct http_refusal refusal;

    if (http_take_headers(request, version, &refusal))
        return true;
    refuse(request, &refusal);
    return false;
}

/* Beyond HTTP_BODY_MAX: a client that sends more has lost its way. */
enum { BODY_FORGOTTEN_MAX = 256 * 1024 };

static bool reserve_body(struct http_request *request, size_t size)
{
    if (size <= request->body_size)
        return true;
    if (size < 2 * request->body_size) /* many small chunks */
        size = 2 * request->body_size;
    char *grown = realloc(request->body, size);
    if (grown == NULL)
        return false;
    request->body = grown;
    request->body_size = size;
    return true;
}

/* The length of a chunked body is known at its end. libmicrohttpd accepts no answer before, so
 * the bytes beyond the limit are read and dropped, up to a second limit. */
bool http_take_body(struct http_request *request, const char *data, size_t *len)
{
    size_t total = request->body_len + *len;

    if (total > HTTP_BODY_MAX + BODY_FORGOTTEN_MAX) {
        log_write(LOG_LEVEL_INFO, "connection closed: the body is far too long", NULL);
        return false;
    }
    if (total <= HTTP_BODY_MAX) {
        if (!reserve_body(request, total))
            return false;
        memcpy(request->body + request->body_len, data, *len);
    }
    request->body_len = total;
    *len = 0;
    return true;
}

/* --- the route ---------------------------------------------------------------------------- */

/* Cuts the target at its query. The absolute form, which RFC 9112 §3.2.2 has every server
 * accept, loses its scheme and authority. */
static const char *split_target(struct http_request *request)
{
    static const char *const schemes[] = {"http://", "https://"};
    char *path = request->uri;
    char *query = strchr(path, '?');

    request->query = query ? query + 1 : path + strlen(path);
    if (query != NULL)
        *query = '\0';
    if (path[0] == '/')
        return path;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i]);
        if (strncasecmp(path, schemes[i], len) == 0) {
            const char *behind_authority = strchr(path + len, '/');
            return behind_authority != NULL ? behind_authority : "/";
        }
    }
    return path;
}

/* Decodes the parameters in place. The prefix of a name stands before it in the path. */
static bool take_params(struct http_request *request, const struct route *route,
                        const struct route_match *match, struct http_refusal *refusal)
{
    size_t prefix_len = route->prefix != NULL ? strlen(route->prefix) : 0;

    for (size_t i = 0; i < ROUTE_PARAMS && match->params[i].text != NULL; i++) {
        char *text = request->uri + (match->params[i].text - request->uri);
        size_t len;
        if (text_percent_decode(text, match->params[i].len, text, match->params[i].len + 1,
                                &len) != 0 ||
            len + prefix_len > HTTP_NAME_MAX || !text_is_utf8(text, len) ||
            text_has_control(text, len))
            return http_refusal_set(
                refusal, PROBLEM_MALFORMED_REQUEST,
                "name: not 1 to %d bytes of percent-encoded UTF-8 without control characters",
                HTTP_NAME_MAX - (int)prefix_len);
        request->params[i] = text - prefix_len;
        prefix_len = 0;
    }
    return true;
}

/* Whether the request is a preflight: a browser asks whether a web page may send a request. A
 * preflight carries no API token. */
static bool is_preflight(const struct http_request *request)
{
    const char *origin = request->headers[HTTP_ORIGIN];

    return strcmp(request->method, "OPTIONS") == 0 && origin != NULL &&
           cors_allowed_origin(request->server->options.origins->cors_origins, origin) != NULL;
}

/* `methods` are those of the resource. */
static void reply_preflight(struct http_request *request, const char *methods)
{
    static const char request_headers[] =
        "Authorization, Content-Type, Idempotency-Key, If-Match, Lease-Token, Prefer, "
        "Session-Token, X-Request-Id, traceparent";

    http_reply_header(request, "Access-Control-Allow-Methods", methods);
    http_reply_header(request, "Access-Control-Allow-Headers", request_headers);
    http_reply_header(request, "Access-Control-Max-Age", "600");
    http_reply_static(request, 204, NULL, "", 0);
}

/* The operation that was probably meant. */
static const char *not_found_hint(const struct http_options *options, const char *method,
                                  const char *path)
{
    static const char locks[] = "/v1/locks/";
    size_t len = strlen(path);
    struct route_match match;
    char *shorter = len > 1 && path[len - 1] == '/' ? strndup(path, len - 1) : NULL;
    bool is_slash_too_many = shorter != NULL &&
                             route_find(options->routes, options->route_count, method, shorter,
                                        &match) != ROUTE_NOT_FOUND;

    free(shorter);
    if (is_slash_too_many)
        return ": remove the slash at the end of the path";
    if (strncmp(path, locks, sizeof(locks) - 1) == 0)
        return ": a slash in a name is written %2F";
    return ": /openapi.yaml lists all resources";
}

/* Called when a request has arrived as a whole: hands it to its handler. */
void http_dispatch(struct http_request *request)
{
    const struct http_options *options = &request->server->options;
    struct route_match match = {0};
    struct http_refusal refusal;
    const char *path = split_target(request);

    if (request->body_len > HTTP_BODY_MAX) {
        problem_reply(request, PROBLEM_TOO_LARGE, NULL, "the body has more than %d bytes",
                      HTTP_BODY_MAX);
        return;
    }
    switch (route_find(options->routes, options->route_count, request->method, path, &match)) {
    case ROUTE_NOT_FOUND:
        problem_reply(request, PROBLEM_NOT_FOUND, NULL, "there is no such resource%s",
                      not_found_hint(options, request->method, path));
        return;
    case ROUTE_METHOD_NOT_ALLOWED:
        if (is_preflight(request)) {
            reply_preflight(request, match.allow);
            return;
        }
        http_reply_header(request, "Allow", match.allow);
        problem_reply(request, PROBLEM_METHOD_NOT_ALLOWED, NULL,
                      "this resource has the methods %s", match.allow);
        return;
    case ROUTE_FOUND:
        break;
    }
    const struct route *route = &options->routes[match.index];
    request->route = match.index;
    if (!http_check_origin(request, route, &refusal) ||
        !http_authenticate(request, route, &refusal) ||
        !take_params(request, route, &match, &refusal) ||
        !http_authorize(request, route, &refusal) ||
        (options->is_quorum && route->not_in_quorum != NULL &&
         !http_refusal_set(&refusal, PROBLEM_NOT_SUPPORTED, "%s", route->not_in_quorum))) {
        refuse(request, &refusal);
        return;
    }
    if (request->server->stopping) {
        http_refuse_stopping(request);
        return;
    }
    http_set_stage(request, HTTP_STAGE_HANDLED);
    if (route->is_listing)
        http_begin_listing(request, route->handle);
    else
        route->handle(request);
}
