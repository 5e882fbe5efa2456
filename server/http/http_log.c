/* The log line and the metrics of each request. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/http/auth.h"
#include "server/http/http_internal.h"
#include "server/http/proxies.h"

static void find_client(const struct http_request *request, char client[INET6_ADDRSTRLEN])
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        request->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    client[0] = '\0';
    if (info != NULL && info->client_addr != NULL)
        proxies_client(request->server->options.trusted_proxies, info->client_addr,
                       request->headers[HTTP_X_FORWARDED_FOR], request->headers[HTTP_FORWARDED],
                       client);
}

void http_client_network(const struct http_request *request, char client[HTTP_CLIENT_SIZE])
{
    struct in6_addr address;

    find_client(request, client);
    if (inet_pton(AF_INET6, client, &address) != 1)
        return;
    memset(address.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &address, client, HTTP_CLIENT_SIZE);
}

static void add_locks(struct json_text *line, const struct http_request *request)
{
    const struct http_options *options = &request->server->options;
    bool routed = request->route < options->route_count;
    char *locks;

    if (routed && route_has_name(&options->routes[request->route]) &&
        request->params[0] != NULL)
        json_text_ascii(line, "lock", request->params[0]);
    if (request->locks == NULL)
        return;
    locks = json_dumps(request->locks, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (locks != NULL)
        json_text_raw(line, "locks", locks, strlen(locks));
    free(locks);
}

static void add_header(struct json_text *line, const char *name, const char *value)
{
    if (value != NULL)
        json_text_ascii(line, name, value);
}

static void write_log_line(struct http_request *request, int status, int64_t duration_ns)
{
    const struct http_options *options = &request->server->options;
    bool routed = request->route < options->route_count;
    char client[INET6_ADDRSTRLEN];
    struct json_text line;

    log_line_begin(&line, LOG_LEVEL_INFO, "request");
    json_text_ascii(&line, "method", request->method);
    json_text_ascii(&line, "route", routed ? options->routes[request->route].path : "");
    json_text_integer(&line, "status", status);
    json_text_milliseconds(&line, "duration_ms", duration_ns);
    add_locks(&line, request);
    if (request->lease_id[0] != '\0')
        json_text_ascii(&line, "lease_id", request->lease_id);
    if (request->caller != NULL)
        json_text_ascii(&line, "caller", auth_caller_name(request->caller));
    find_client(request, client);
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
    if (!log_is_on(LOG_LEVEL_INFO))
        return;
    write_log_line(request, status, duration_ns);
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
