/* From the first header of a request to its handler. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/auth.h"
#include "server/clock.h"
#include "server/http_internal.h"
#include "server/problem.h"
#include "server/text.h"

/* Request line and headers beyond this are refused with a problem; what does not even fit the
 * pool is refused by libmicrohttpd itself, in its own words. */
enum {
    HEADERS_MAX = 4 * 1024,
    HEADER_OVERHEAD = 80 /* that libmicrohttpd keeps of each header, besides its text */
};

struct header_name {
    const char *text;
    size_t len;
};

#define HEADER_NAME(text)                                                                      \
    {                                                                                          \
        (text), sizeof(text) - 1                                                               \
    }

static const struct header_name header_names[HTTP_HEADER_COUNT] = {
    [HTTP_LEASE_TOKEN] = HEADER_NAME("Lease-Token"),
    [HTTP_SESSION_TOKEN] = HEADER_NAME("Session-Token"),
    [HTTP_IDEMPOTENCY_KEY] = HEADER_NAME("Idempotency-Key"),
    [HTTP_IF_MATCH] = HEADER_NAME("If-Match"),
    [HTTP_PREFER] = HEADER_NAME("Prefer"),
    [HTTP_AUTHORIZATION] = HEADER_NAME("Authorization"),
    [HTTP_CONTENT_TYPE] = HEADER_NAME("Content-Type"),
};

/* The two that say where a request ends. */
static const struct header_name content_length = HEADER_NAME("Content-Length");
static const struct header_name transfer_encoding = HEADER_NAME("Transfer-Encoding");

struct header_scan {
    struct http_request *request;
    size_t bytes;
    int content_lengths;
    bool transfer_encoding, bad_name;
    const char *content_length, *repeated;
};

/* RFC 9110 §5.6.2. */
static bool is_token(const char *text, size_t len)
{
    static const bool allowed[256] = {
        ['0' ... '9'] = true,  ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true,
        ['#' ... '\''] = true, ['*'] = true,         ['+'] = true,         ['-'] = true,
        ['.'] = true,          ['^' ... '`'] = true, ['|'] = true,         ['~'] = true,
    };

    for (size_t i = 0; i < len; i++)
        if (!allowed[(unsigned char)text[i]])
            return false;
    return len > 0;
}

/* A header that a proxy may read as one of the two that say where a request ends: a folded or
 * otherwise broken form of it, which libmicrohttpd takes for a header of another name. */
static bool is_near_framing(const char *name, size_t len)
{
    return (len >= content_length.len &&
            strncasecmp(name, content_length.text, content_length.len) == 0) ||
           (len >= transfer_encoding.len &&
            strncasecmp(name, transfer_encoding.text, transfer_encoding.len) == 0);
}

/* `name` is ended by a NUL. The lengths first: they settle nearly every comparison. */
static bool is_header(const struct header_name *header, const char *name, size_t len)
{
    return header->len == len && strcasecmp(header->text, name) == 0;
}

static enum MHD_Result scan_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                   size_t name_len, const char *value, size_t value_len)
{
    struct header_scan *scan = arg;

    (void)kind;
    scan->bytes += name_len + value_len + HEADER_OVERHEAD;
    if (!is_token(name, name_len) || (value != NULL && strlen(value) != value_len))
        scan->bad_name = true;
    if (is_header(&content_length, name, name_len)) {
        scan->content_lengths++;
        scan->content_length = value;
        return MHD_YES;
    }
    if (is_header(&transfer_encoding, name, name_len)) {
        scan->transfer_encoding = true;
        return MHD_YES;
    }
    if (is_near_framing(name, name_len))
        scan->bad_name = true;
    for (enum http_header i = 0; i < HTTP_HEADER_COUNT; i++) {
        if (!is_header(&header_names[i], name, name_len))
            continue;
        if (scan->request->headers[i] != NULL)
            scan->repeated = header_names[i].text;
        scan->request->headers[i] = value ? value : "";
    }
    return MHD_YES;
}

/* What libmicrohttpd lets pass and must not: two lengths or a transfer coding are how requests
 * are smuggled past a proxy. True when the request was refused. */
static bool refuse_headers(struct http_request *request, const struct header_scan *scan)
{
    int64_t body_len = 0;

    if (scan->bytes + strlen(request->uri) > HEADERS_MAX)
        problem_reply(
            request, PROBLEM_HEADERS_TOO_LARGE, NULL,
            "request line and headers have more than %d bytes, with %d for each header",
            HEADERS_MAX, HEADER_OVERHEAD);
    else if (scan->bad_name)
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "one of the headers is not well-formed");
    else if (scan->transfer_encoding)
        problem_reply(request, PROBLEM_LENGTH_REQUIRED, NULL,
                      "Transfer-Encoding is not accepted: send a Content-Length");
    else if (scan->content_lengths > 1)
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "Content-Length is there more than once");
    else if (scan->repeated != NULL)
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL, "%s is there more than once",
                      scan->repeated);
    else if (scan->content_length != NULL && !text_parse_int64(scan->content_length, &body_len))
        problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                      "Content-Length is not a number");
    else if (body_len > HTTP_BODY_MAX)
        problem_reply(request, PROBLEM_TOO_LARGE, NULL, "the body has more than %d bytes",
                      HTTP_BODY_MAX);
    return request->stage == HTTP_STAGE_ANSWERED;
}

bool http_take_headers(struct http_request *request)
{
    struct header_scan scan = {.request = request};

    MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, scan_header, &scan);
    return !refuse_headers(request, &scan);
}

bool http_take_body(struct http_request *request, const char *data, size_t *len)
{
    if (request->body_len + *len > HTTP_BODY_MAX)
        return false; /* more than its Content-Length said: cannot happen */
    if (request->body_len + *len > request->body_size) {
        size_t size = request->body_len + *len;
        char *grown = realloc(request->body, size);
        if (grown == NULL)
            return false;
        request->body = grown;
        request->body_size = size;
    }
    memcpy(request->body + request->body_len, data, *len);
    request->body_len += *len;
    *len = 0;
    return true;
}

/* Cuts the target at its query. The absolute form, which RFC 9112 §3.2.2 has every server
 * accept, loses its scheme and authority. */
static char *split_target(struct http_request *request)
{
    char *path = request->uri;
    char *query = strchr(path, '?');

    request->query = query ? query + 1 : path + strlen(path);
    if (query != NULL)
        *query = '\0';
    if (strncasecmp(path, "http://", 7) == 0) {
        path = strchr(path + 7, '/');
        if (path == NULL)
            path = request->uri + strlen(request->uri);
    }
    return path;
}

/* Decodes the parameters in place. False after a refusal. */
static bool take_params(struct http_request *request, const struct route_match *match)
{
    for (size_t i = 0; i < ROUTE_PARAMS && match->params[i].text != NULL; i++) {
        char *text = request->uri + (match->params[i].text - request->uri);
        size_t len;
        if (text_percent_decode(text, match->params[i].len, text, match->params[i].len + 1,
                                &len) != 0 ||
            len > HTTP_NAME_MAX || !text_is_utf8(text, len) || text_has_control(text, len)) {
            problem_reply(request, PROBLEM_MALFORMED_REQUEST, NULL,
                          "name: not 1 to %d bytes of percent-encoded UTF-8 without control "
                          "characters",
                          HTTP_NAME_MAX);
            return false;
        }
        request->params[i] = text;
    }
    return true;
}

/* True when the caller may go on. */
static bool authorize(struct http_request *request, const struct route *route)
{
    const struct auth *auth = request->server->options.auth;

    if (auth == NULL || route->access == ROUTE_OPEN)
        return true;
    request->caller = auth_find(auth, request->headers[HTTP_AUTHORIZATION]);
    if (request->caller == NULL) {
        http_reply_header(request, "WWW-Authenticate", "Bearer");
        problem_reply(request, PROBLEM_UNAUTHENTICATED, NULL,
                      "Authorization: needs a Bearer token that this server knows");
        return false;
    }
    return true;
}

/* A whole request is there: hand it to its handler. */
void http_dispatch(struct http_request *request)
{
    const struct http_options *options = &request->server->options;
    struct route_match match = {0};
    const char *path = split_target(request);

    request->received_ns = clock_ns();
    switch (route_find(options->routes, options->route_count, request->method, path, &match)) {
    case ROUTE_NOT_FOUND:
        problem_reply(request, PROBLEM_NOT_FOUND, NULL, "there is no such resource");
        return;
    case ROUTE_METHOD_NOT_ALLOWED:
        http_reply_header(request, "Allow", match.allow);
        problem_reply(request, PROBLEM_METHOD_NOT_ALLOWED, NULL, "this resource takes %s",
                      match.allow);
        return;
    case ROUTE_FOUND:
        break;
    }
    const struct route *route = &options->routes[match.index];
    request->route = match.index;
    if (!authorize(request, route) || !take_params(request, &match))
        return;
    if (request->caller != NULL && route->access != ROUTE_CALLER &&
        request->params[0] != NULL &&
        !auth_allows(request->caller, route->access, request->params[0])) {
        problem_reply(request, PROBLEM_FORBIDDEN, NULL,
                      "this API token gives no right to do that to this name");
        return;
    }
    if (request->server->stopping) {
        problem_reply(request, PROBLEM_DRAINING, json_pack("{s:s}", "outcome", "not-executed"),
                      "this server is shutting down");
        return;
    }
    http_set_stage(request, HTTP_STAGE_HANDLED);
    route->handle(request);
}
