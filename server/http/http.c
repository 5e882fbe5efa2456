/* The life of a request within libmicrohttpd: start, suspension, answer and end. */
#include "server/http/http.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/http/cors.h"
#include "server/http/http_internal.h"
#include "server/http/origin.h"
#include "server/tls/tls.h"

/* libmicrohttpd's memory for one connection: the largest headers that are served, its records
 * of them, and the head of an answer. It clears all of it after each request, so a waiting
 * request keeps all of it resident, unless it is the first of its connection. */
enum { POOL_BYTES = 11 * 1024 };

/* rlockd itself refuses the requests that a strict libmicrohttpd before 1.0 would refuse, for
 * that library's answer is not well-formed. Later versions refuse more, with proper answers. */
enum { STRICT = MHD_VERSION < 0x01000000 ? 0 : 1 };

/* An answer that takes longer leaves the fast path: its connection is suspended, so that later
 * turns do not ask for it and its hang-up is seen. */
#define UNPARKED_NS (5 * CLOCK_NS_PER_MS)

/* --- the life of a request ---------------------------------------------------------------- */

/* Leaves libmicrohttpd one query parameter, with a value. When the buffer is nearly full and no
 * header follows, libmicrohttpd 1.0.1 goes on from the end of the last parameter's value, even
 * if the value is NULL: one long `GET /?a` would end the process. */
static void blank_query(char *target)
{
    char *query = strchr(target, '?');

    if (query != NULL)
        memset(query + 1, '=', strlen(query + 1));
}

/* libmicrohttpd's first word of a request: its raw request line, before it is cut at `?` and
 * decoded, which we do ourselves (its own decoding ends a name at %00). */
static void *on_request_line(void *arg, const char *uri, struct MHD_Connection *mhd)
{
    struct http_server *server = arg;
    struct http_request *request = http_request_new(server, uri);

    if (request != NULL)
        request->target_end = uri + strlen(uri);
    blank_query((char *)uri); /* const in name: it is the connection's own buffer */
    http_skip_cookies(mhd);
    if (request == NULL)
        return NULL;
    request->mhd = mhd;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    request->conn = info->socket_context;
    if (request->conn != NULL)
        http_conn_move(&server->conns, request->conn, HTTP_CONN_RECEIVING,
                       loop_now_ns(server->options.loop));
    return request;
}

/* libmicrohttpd lets go of the request: it was answered, or its connection is closed. */
static void on_completed(void *arg, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *server = arg;
    struct http_request *request = *context;
    bool delivered = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;

    (void)mhd;
    if (request == NULL)
        return;
    *context = NULL;
    delivered = delivered && request->stage == HTTP_STAGE_QUEUED;
    if (request->stage >= HTTP_STAGE_ARRIVED)
        http_log_request(request, delivered);
    if (request->conn != NULL)
        http_conn_move(&server->conns, request->conn, HTTP_CONN_IDLE,
                       loop_now_ns(server->options.loop));
    http_let_go(request, delivered);
}

/* --- answering ---------------------------------------------------------------------------- */

/* Adds the CORS headers for an allowed origin. */
static enum MHD_Result share(const struct http_request *request, struct MHD_Response *response)
{
    const char *origin = request->headers[HTTP_ORIGIN];
    const char *origins = request->server->options.origins->cors_origins;
    const char *allowed = origin ? cors_allowed_origin(origins, origin) : NULL;
    enum MHD_Result ok = MHD_add_response_header(response, "Vary", "Origin");

    if (allowed == NULL)
        return ok;
    ok &= MHD_add_response_header(response, "Access-Control-Allow-Origin", allowed);
    return ok & MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                        "Allow, Lease-Token, Preference-Applied, Retry-After, "
                                        "Session-Token, X-Request-Id");
}

/* GET or HEAD, which a page of another origin may send without telling its origin: as an image
 * or a script. Their answers have Cross-Origin-Resource-Policy, so that the browser hides from
 * the page even whether there was an answer. */
static bool is_look(const struct http_request *request)
{
    return request->method[0] == 'G' || request->method[0] == 'H';
}

static enum MHD_Result queue_reply(struct http_request *request)
{
    struct http_server *server = request->server;
    struct http_reply *reply = &request->reply;
    const struct http_reply_header *header;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->len, (char *)reply->text, MHD_RESPMEM_PERSISTENT);

    if (response == NULL)
        return MHD_NO;
    enum MHD_Result ok = MHD_YES;
    if (reply->content_type != NULL)
        ok = MHD_add_response_header(response, "Content-Type", reply->content_type);
    if (request->headers[HTTP_REQUEST_ID] != NULL)
        ok &= MHD_add_response_header(response, "X-Request-Id",
                                      request->headers[HTTP_REQUEST_ID]);
    if (server->options.origins->cors_origins[0] != '\0')
        ok &= share(request, response);
    if (is_look(request))
        ok &= MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    LL_FOREACH(reply->headers, header)
        ok &= MHD_add_response_header(response, header->name, header->value);
    if (request->close_after || server->draining)
        ok &= MHD_add_response_header(response, "Connection", "close");
    if (ok == MHD_YES)
        ok = MHD_queue_response(request->mhd, (unsigned)request->status, response);
    MHD_destroy_response(response);
    http_set_stage(request, HTTP_STAGE_QUEUED);
    http_conn_move(&server->conns, request->conn, HTTP_CONN_REPLYING,
                   loop_now_ns(server->options.loop));
    server->run_wanted = true; /* libmicrohttpd sends it in its next run */
    return ok;
}

/* --- waiting ------------------------------------------------------------------------------ */

static bool is_overdue(const struct http_request *request)
{
    return loop_now_ns(request->server->options.loop) - request->conn->since_ns > UNPARKED_NS;
}

/* libmicrohttpd asks for the answer again, as it does in each of its runs. */
static enum MHD_Result proceed(struct http_request *request)
{
    switch (request->stage) {
    case HTTP_STAGE_ANSWERED:
        return queue_reply(request);
    case HTTP_STAGE_DROPPED:
        return MHD_NO;
    case HTTP_STAGE_HANDLED:
        if (request->suspend_wanted || is_overdue(request))
            http_park(request);
        return MHD_YES;
    case HTTP_STAGE_HEADERS:
    case HTTP_STAGE_BODY:
    case HTTP_STAGE_ARRIVED:
    case HTTP_STAGE_QUEUED:
        break;
    }
    return MHD_YES;
}

/* --- a request arrives ---------------------------------------------------------------------
 */

static enum MHD_Result on_headers(struct http_request *request, const char *method,
                                  const char *version)
{
    request->method = method;
    request->received_ns = clock_ns();
    if (!http_receive_headers(request, version))
        return queue_reply(request);
    request->stage = HTTP_STAGE_BODY;
    return MHD_YES;
}

/* The whole request is there. `now_ns` 0: since an earlier run. Without a place in this turn it
 * stays as it is, and libmicrohttpd asks for its answer again. */
static void begin_service(struct http_request *request, int64_t now_ns)
{
    struct http_server *server = request->server;

    if (!budget_takes_request(&server->budget, &request->conn->round, now_ns))
        return;
    request->conn->since_ns = loop_now_ns(server->options.loop);
    http_dispatch(request);
}

static void arrive(struct http_request *request)
{
    request->received_ns = clock_ns();
    http_set_stage(request, HTTP_STAGE_ARRIVED);
    http_conn_move(&request->server->conns, request->conn, HTTP_CONN_BUSY,
                   loop_now_ns(request->server->options.loop));
    begin_service(request, request->received_ns);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_len, void **context)
{
    struct http_server *server = arg;
    struct http_request *request = *context;

    (void)mhd;
    (void)url;
    if (request == NULL || request->conn == NULL)
        return MHD_NO; /* memory was short */
    if (request->stage == HTTP_STAGE_HEADERS)
        return on_headers(request, method, version);
    if (*data_len > 0)
        return http_take_body(request, data, data_len) ? MHD_YES : MHD_NO;
    if (request->stage == HTTP_STAGE_BODY)
        arrive(request);
    else if (request->stage == HTTP_STAGE_ARRIVED)
        begin_service(request, 0);
    else if (request->stage == HTTP_STAGE_ANSWERED && !budget_takes_answer(&server->budget))
        return MHD_YES;
    return proceed(request);
}

/* --- the server --------------------------------------------------------------------------- */

/* Keeps libmicrohttpd from decoding the target: see on_request_line(). */
static size_t leave_escaped(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return strlen(text);
}

static struct MHD_Daemon *start_daemon(struct http_server *server)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (char *)TLS_PRIORITIES},
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, tls_certificate_callback()},
        {MHD_OPTION_END, 0, NULL},
        {MHD_OPTION_END, 0, NULL},
    };

    if (tls_client_authorities() != NULL)
        tls[2] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0,
                                         (char *)tls_client_authorities()};
    if (tls_is_on())
        flags |= MHD_USE_TLS;
    else
        tls[0] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    /* External epoll mode: libmicrohttpd's own thread stalls at exactly 128 busy connections.
     */
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, http_log_library,
        NULL, MHD_OPTION_LISTEN_SOCKET, server->options.listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)server->options.max_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)POOL_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, (int)STRICT,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_URI_LOG_CALLBACK,
        on_request_line, server, MHD_OPTION_ARRAY, tls, MHD_OPTION_NOTIFY_CONNECTION,
        http_on_connection, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
        MHD_OPTION_END);
}

struct http_server *http_start(const struct http_options *options)
{
    struct http_server *server = calloc(1, sizeof(*server));

    if (server == NULL)
        return NULL;
    server->options = *options;
    http_conns_init(&server->conns, options);
    server->tls_gate.metrics = options->metrics;
    http_pools_init(server);
    http_listings_init(&server->large, options->loop);
    server->sweep = (struct timer){.fire = http_sweep, .arg = server};
    server->daemon = start_daemon(server);
    if (server->daemon == NULL) {
        log_write(LOG_LEVEL_ERROR, "HTTP could not be started", NULL);
        free(server);
        return NULL;
    }
    http_turns_init(server);
    http_sweep(server);
    return server;
}
