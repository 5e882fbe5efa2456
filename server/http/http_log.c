/* The log line and the metrics of each request. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "server/auth/auth.h"
#include "server/http/http_internal.h"

/* --- members that handlers add ------------------------------------------------------------ */

static void add_member(struct http_request *request, const char *name, const char *value,
                       bool is_text)
{
    size_t value_size = strlen(value) + 1;
    struct http_log_member *member = http_memory(request, sizeof(*member) + value_size), *old;

    LL_SEARCH_SCALAR(request->log_members, old, name, name);
    if (old != NULL)
        LL_DELETE(request->log_members, old);
    member->name = name;
    member->is_text = is_text;
    memcpy(member->value, value, value_size);
    LL_APPEND(request->log_members, member);
}

void http_log_text(struct http_request *request, const char *name, const char *value)
{
    if (log_is_on(LOG_LEVEL_INFO))
        add_member(request, name, value, true);
}

void http_log_integer(struct http_request *request, const char *name, int64_t value)
{
    char text[TEXT_INT64_SIZE];

    if (!log_is_on(LOG_LEVEL_INFO))
        return;
    text_format_int64(text, value);
    add_member(request, name, text, false);
}

void http_log_json(struct http_request *request, const char *name, json_t *value)
{
    char *text = log_is_on(LOG_LEVEL_INFO)
                     ? json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY)
                     : NULL;

    if (text != NULL)
        add_member(request, name, text, false);
    free(text);
    json_decref(value);
}

void http_log_audit(struct http_request *request)
{
    if (log_is_on(LOG_LEVEL_INFO))
        add_member(request, "audit", "true", false);
}

static void write_members(struct json_text *line, const struct http_request *request)
{
    const struct http_log_member *member;

    LL_FOREACH(request->log_members, member)
        if (member->is_text)
            json_text_ascii(line, member->name, member->value);
        else
            json_text_raw(line, member->name, member->value, strlen(member->value));
}

/* --- the line ----------------------------------------------------------------------------- */

static void add_header(struct json_text *line, const char *name, const char *value)
{
    if (value != NULL)
        json_text_ascii(line, name, value);
}

/* NULL: no route. */
static const struct route *route_of(const struct http_request *request)
{
    const struct http_options *options = &request->server->options;

    return request->route < options->route_count ? &options->routes[request->route] : NULL;
}

/* A check of health or metrics comes every second or so, and is of interest when it fails. */
static enum log_level level_of(const struct http_request *request, int status)
{
    const struct route *route = route_of(request);

    return route != NULL && route->access == AUTH_OPEN && status < 400 ? LOG_LEVEL_DEBUG
                                                                       : LOG_LEVEL_INFO;
}

static void write_log_line(const struct http_request *request, enum log_level level, int status,
                           int64_t duration_ns)
{
    const struct http_options *options = &request->server->options;
    const struct route *route = route_of(request);
    char client[INET6_ADDRSTRLEN];
    struct json_text line;

    log_line_begin(&line, level, "request");
    json_text_ascii(&line, "method", request->method);
    json_text_ascii(&line, "route", route != NULL ? route->path : "");
    json_text_integer(&line, "status", status);
    json_text_milliseconds(&line, "duration_ms", duration_ns);
    if (route != NULL && route->object != NULL && request->params[0] != NULL)
        json_text_ascii(&line, route->object, request->params[0]);
    write_members(&line, request);
    if (request->waits_since_ns != 0)
        json_text_integer(&line, "waited_ms",
                          (clock_ns() - request->waits_since_ns) / CLOCK_NS_PER_MS);
    if (request->caller != NULL)
        json_text_ascii(&line, "caller", auth_caller_name(request->caller));
    http_client_address(request, client);
    json_text_ascii(&line, "remote", client);
    add_header(&line, "request_id", request->headers[HTTP_REQUEST_ID]);
    add_header(&line, "traceparent", request->headers[HTTP_TRACEPARENT]);
    log_line_end(options->log, &line);
}

void http_log_request(struct http_request *request, bool delivered)
{
    struct http_server *server = request->server;
    const struct http_options *options = &server->options;
    int64_t duration_ns = clock_ns() - request->received_ns;
    int status = delivered ? request->status : 499;

    metrics_request(options->metrics, request->route, status);
    metrics_observe(options->metrics, HISTOGRAM_REQUEST, duration_ns);
    enum log_level level = level_of(request, status);
    if (log_is_on(level))
        write_log_line(request, level, status, duration_ns);
}

/* Of requests that libmicrohttpd refuses before we see them this is the only trace. */
void http_log_library(void *arg, const char *format, va_list args)
{
    bool is_refusal = strncmp(format, "Error processing request", 24) == 0 ||
                      strncmp(format, "The NUL character", 17) == 0;
    enum log_level level = is_refusal ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;
    char text[256];

    (void)arg;
    if (!log_is_on(level))
        return;
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = '\0';
    log_write(level, "libmicrohttpd", json_pack("{s:s*}", "text", text));
}
