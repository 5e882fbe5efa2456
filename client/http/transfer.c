/* One HTTP exchange at a time: libevent's connection, our own clock, addresses in turn. */
#include "client/http/transfer.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/boottime.h"
#include "client/http/connection.h"
#include "client/http/peer.h"

enum {
    CONNECT_TIMEOUT_MS = 3000, /* of one address */
};

struct transfer {
    const struct settings *settings;
    struct event_base *base;
    struct event *timer, *watched[TRANSFER_FDS];
    transfer_watch_fn *watch;
    void *context;

    char *url; /* of the present server, or NULL */
    struct peer peer;
    SSL_CTX *trust; /* NULL until the first server with TLS */

    struct connection connection;

    struct transfer_answer *answer; /* of the exchange that is under way */
    bool has_ended, has_answer, has_begun;
    char trouble[384];
};

static void ignore_event(evutil_socket_t fd, short what, void *context)
{
    (void)fd, (void)what, (void)context;
}

/* poll(2), for epoll takes no files, and a file may be standard input. */
static struct event_base *make_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config && event_config_avoid_method(config, "epoll") == 0 &&
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0) {
        base = event_base_new_with_config(config);
    }
    if (config) {
        event_config_free(config);
    }
    return base;
}

struct transfer *transfer_new(const struct settings *settings)
{
    struct transfer *transfer = calloc(1, sizeof(*transfer));

    if (!transfer) {
        return NULL;
    }
    transfer->settings = settings;
    transfer->base = make_base();
    transfer->timer = transfer->base ? evtimer_new(transfer->base, ignore_event, NULL) : NULL;
    if (!transfer->timer) {
        transfer_free(transfer);
        return NULL;
    }
    return transfer;
}

void transfer_free(struct transfer *transfer)
{
    if (!transfer) {
        return;
    }
    connection_drop(&transfer->connection);
    for (size_t i = 0; i < TRANSFER_FDS; i++) {
        transfer_watch_fd(transfer, i, -1);
    }
    if (transfer->timer) {
        event_free(transfer->timer);
    }
    if (transfer->base) {
        event_base_free(transfer->base);
    }
    SSL_CTX_free(transfer->trust);
    peer_clear(&transfer->peer);
    free(transfer->url);
    free(transfer);
}

const char *transfer_trouble(const struct transfer *transfer)
{
    return transfer->trouble;
}

/* ---- the loop */

void transfer_watch(struct transfer *transfer, transfer_watch_fn *watch, void *context)
{
    transfer->watch = watch;
    transfer->context = context;
}

void transfer_watch_fd(struct transfer *transfer, size_t place, int fd)
{
    struct event **event = &transfer->watched[place];

    if (*event) {
        event_free(*event);
        *event = NULL;
    }
    if (fd >= 0) {
        *event = event_new(transfer->base, fd, EV_READ | EV_PERSIST, ignore_event, NULL);
        if (*event) {
            event_add(*event, NULL);
        }
    }
}

/* A server that hangs up is no reason to die by SIGPIPE, as a closed standard output is. */
static void run_loop(struct transfer *transfer, int flags)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;

    sigaction(SIGPIPE, &ignore, &before);
    event_base_loop(transfer->base, flags);
    sigaction(SIGPIPE, &before, NULL);
}

/* Waits for the network, for the watched descriptors, or so long. True: interrupted. */
static bool turn(struct transfer *transfer, int64_t left)
{
    left = left < 0 ? 0 : left > TRANSFER_TURN_MS ? TRANSFER_TURN_MS : left;
    struct timeval time = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
    event_add(transfer->timer, &time);
    run_loop(transfer, EVLOOP_ONCE);
    return transfer->watch && transfer->watch(transfer->context);
}

bool transfer_pause(struct transfer *transfer, int64_t until)
{
    do {
        if (turn(transfer, until - boottime_ms())) {
            return false;
        }
    } while (boottime_ms() < until);
    return true;
}

/* The clock of time-outs stands still in a suspend: the answer may lie in the socket. */
static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- one exchange over it */

static int64_t read_retry_after(struct evhttp_request *request)
{
    const char *text = evhttp_find_header(evhttp_request_get_input_headers(request),
                                          "Retry-After");
    char *end;
    long long seconds = text ? strtoll(text, &end, 10) : 0; /* a date is nothing */

    return text && end != text && *end == '\0' && seconds > 0 ? seconds : 0;
}

static int on_headers(struct evhttp_request *request, void *context)
{
    struct transfer *transfer = context;

    (void)request;
    transfer->has_begun = true;
    return 0;
}

static void on_trouble(enum evhttp_request_error error, void *context)
{
    static const char *const texts[] = {
        [EVREQ_HTTP_TIMEOUT] = "the connection timed out",
        [EVREQ_HTTP_EOF] = "the server closed the connection",
        [EVREQ_HTTP_INVALID_HEADER] = "the answer is not HTTP",
        [EVREQ_HTTP_BUFFER_ERROR] = "the connection was lost",
        [EVREQ_HTTP_REQUEST_CANCEL] = "the request was cancelled",
        [EVREQ_HTTP_DATA_TOO_LONG] = "the answer is too long",
    };
    struct transfer *transfer = context;

    snprintf(transfer->trouble, sizeof(transfer->trouble), "%s", texts[error]);
}

/* libevent's words for "no connection" are an answer with the status 0, for a loss none. */
static void on_answer(struct evhttp_request *request, void *context)
{
    struct transfer *transfer = context;
    struct transfer_answer *answer = transfer->answer;

    transfer->has_ended = true;
    answer->status = request ? evhttp_request_get_response_code(request) : 0;
    transfer->has_answer = answer->status != 0;
    if (!transfer->has_answer) {
        const char *why = connection_trouble(&transfer->connection);
        if (why) {
            snprintf(transfer->trouble, sizeof(transfer->trouble), "TLS: %s", why);
        }
        return;
    }
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    answer->retry_after_s = read_retry_after(request);
    answer->body_len = evbuffer_get_length(body);
    answer->body = answer->body_len ? malloc(answer->body_len) : NULL;
    if (answer->body) {
        evbuffer_remove(body, answer->body, answer->body_len);
    }
}

static bool add_headers(struct transfer *transfer, const struct transfer_request *request,
                        struct evkeyvalq *headers)
{
    const struct peer *peer = &transfer->peer;
    char length[24];
    bool done = evhttp_add_header(headers, "Host", peer->host_header) == 0 &&
                evhttp_add_header(headers, "User-Agent", "rlock/" RLOCKD_VERSION) == 0;

    for (const struct transfer_header *at = request->headers; at->name; at++) {
        done = (!at->value || evhttp_add_header(headers, at->name, at->value) == 0) && done;
    }
    if (peer->authorization && !evhttp_find_header(headers, "Authorization")) {
        done = evhttp_add_header(headers, "Authorization", peer->authorization) == 0 && done;
    }
    /* A POST without a body has a length of 0, which the server asks for. */
    if (strcmp(request->method, "GET") != 0) {
        snprintf(length, sizeof(length), "%zu", request->body ? strlen(request->body) : 0);
        done = evhttp_add_header(headers, "Content-Length", length) == 0 && done;
    }
    return done;
}

static enum evhttp_cmd_type command_of(const char *method)
{
    static const struct {
        const char *method;
        enum evhttp_cmd_type command;
    } rows[] = {{"GET", EVHTTP_REQ_GET},
                {"PUT", EVHTTP_REQ_PUT},
                {"POST", EVHTTP_REQ_POST},
                {"PATCH", EVHTTP_REQ_PATCH},
                {"DELETE", EVHTTP_REQ_DELETE}};
    size_t at = 0;

    while (strcmp(rows[at].method, method) != 0) {
        at++;
    }
    return rows[at].command;
}

/* The request belongs to the connection from here on. */
static bool send_request(struct transfer *transfer, const struct transfer_request *request)
{
    struct evhttp_request *sent = evhttp_request_new(on_answer, transfer);
    char *target = NULL;
    bool is_sent = false;

    if (!sent || !add_headers(transfer, request, evhttp_request_get_output_headers(sent)) ||
        (request->body && evbuffer_add(evhttp_request_get_output_buffer(sent), request->body,
                                       strlen(request->body)) != 0) ||
        asprintf(&target, "%s%s", transfer->peer.folder, request->path) < 0) {
        if (sent) {
            evhttp_request_free(sent);
        }
        target = NULL;
    } else {
        evhttp_request_set_error_cb(sent, on_trouble);
        evhttp_request_set_header_cb(sent, on_headers);
        is_sent = evhttp_make_request(transfer->connection.http, sent,
                                      command_of(request->method), target) == 0;
    }
    free(target);
    return is_sent;
}

enum step { STEP_DONE, STEP_FAILED, STEP_NOT_CONNECTED, STEP_INTERRUPTED };

/* Until the answer, the end of the connection, or a time-out. */
static enum step await(struct transfer *transfer, int64_t until)
{
    const struct connection *connection = &transfer->connection;
    int64_t connected_by = now_ms() + CONNECT_TIMEOUT_MS;

    connected_by = connected_by < until ? connected_by : until;
    while (!transfer->has_ended) {
        if (turn(transfer, (connection->is_connected ? until : connected_by) - now_ms())) {
            return STEP_INTERRUPTED;
        }
        int64_t due = connection->is_connected ? until : connected_by;
        if (!transfer->has_ended && now_ms() >= due) {
            snprintf(transfer->trouble, sizeof(transfer->trouble), "no %s in time",
                     connection->is_connected ? "answer" : "connection");
            break;
        }
    }
    if (transfer->has_answer) {
        return STEP_DONE;
    }
    if (!connection->is_connected && !*transfer->trouble) {
        snprintf(transfer->trouble, sizeof(transfer->trouble), "%s",
                 connection->error ? strerror(connection->error) : "no connection");
    }
    return connection->is_connected ? STEP_FAILED : STEP_NOT_CONNECTED;
}

/* One attempt over the present connection, which is kept after an answer only. */
static enum step exchange(struct transfer *transfer, const struct transfer_request *request,
                          int64_t until)
{
    enum step step = STEP_FAILED;

    transfer->has_ended = transfer->has_answer = transfer->has_begun = false;
    transfer->trouble[0] = '\0';
    if (send_request(transfer, request)) {
        connection_watch(&transfer->connection);
        step = await(transfer, until);
    } else {
        snprintf(transfer->trouble, sizeof(transfer->trouble), "no memory for a request");
    }
    transfer->connection.is_kept = step == STEP_DONE;
    if (step != STEP_DONE || transfer->connection.is_closed) {
        connection_drop(&transfer->connection);
    }
    return step;
}

/* ---- a server */

/* The addresses; NULL: *step says why not. */
static struct addrinfo *find_addresses(struct transfer *transfer, int64_t until,
                                       enum step *step)
{
    struct lookup *lookup = lookup_start(&transfer->peer);
    struct addrinfo *found = NULL;
    const char *why = "no memory for a search of its address";
    struct event *end = NULL;

    *step = STEP_NOT_CONNECTED;
    if (lookup) {
        end = event_new(transfer->base, lookup_fd(lookup), EV_READ, ignore_event, NULL);
    }
    if (end && event_add(end, NULL) == 0) {
        why = "its address was not found in time";
        while (event_pending(end, EV_READ, NULL) && now_ms() < until) {
            if (turn(transfer, until - now_ms())) {
                *step = STEP_INTERRUPTED;
                break;
            }
        }
        if (!event_pending(end, EV_READ, NULL)) {
            found = lookup_take(lookup, &why);
        }
    }
    if (end) {
        event_free(end);
    }
    lookup_drop(lookup);
    snprintf(transfer->trouble, sizeof(transfer->trouble), "%s", why ? why : "");
    return found;
}

static enum step ask_anew(struct transfer *transfer, const struct transfer_request *request,
                          int64_t until)
{
    enum step step;
    struct addrinfo *addresses = find_addresses(transfer, until, &step);

    for (const struct addrinfo *at = addresses; at; at = at->ai_next) {
        if (!connection_open(&transfer->connection, transfer->base, &transfer->peer,
                             transfer->trust, at)) {
            snprintf(transfer->trouble, sizeof(transfer->trouble),
                     "no memory for a connection");
            break;
        }
        step = exchange(transfer, request, until);
        if (step != STEP_NOT_CONNECTED || now_ms() >= until) {
            break;
        }
    }
    if (addresses) {
        freeaddrinfo(addresses);
    }
    return step;
}

/* Makes this server the present one. */
static bool turn_to(struct transfer *transfer, const char *url)
{
    if (!transfer->url || strcmp(transfer->url, url) != 0) {
        connection_drop(&transfer->connection);
        peer_clear(&transfer->peer);
        free(transfer->url);
        transfer->url = NULL;
        if (!peer_read(&transfer->peer, url) || !(transfer->url = strdup(url))) {
            snprintf(transfer->trouble, sizeof(transfer->trouble), "not a URL of a server");
            return false;
        }
    }
    if (transfer->peer.is_tls && !transfer->trust) {
        transfer->trust = peer_trust(transfer->settings, transfer->trouble,
                                     sizeof(transfer->trouble));
    }
    return !transfer->peer.is_tls || transfer->trust;
}

enum transfer_outcome transfer_run(struct transfer *transfer, const char *url,
                                   const struct transfer_request *request,
                                   struct transfer_answer *answer)
{
    int64_t until = now_ms() + request->timeout_ms;
    enum step step = STEP_NOT_CONNECTED;

    *answer = (struct transfer_answer){0};
    transfer->answer = answer;
    if (!turn_to(transfer, url)) {
        return TRANSFER_NOT_SENT;
    }
    if (transfer->connection.http) {
        run_loop(transfer,
                 EVLOOP_NONBLOCK | EVLOOP_ONCE); /* notices what the server has closed */
    }
    if (transfer->connection.is_closed) {
        connection_drop(&transfer->connection);
    }
    bool was_kept = transfer->connection.is_kept;
    if (was_kept) {
        step = exchange(transfer, request, until);
    }
    bool is_stale = step == STEP_FAILED && !request->once && !transfer->has_begun &&
                    now_ms() < until;
    if (!was_kept || is_stale) {
        step = ask_anew(transfer, request, until);
    }
    bool was_sent = was_kept || step != STEP_NOT_CONNECTED;
    return step == STEP_DONE          ? TRANSFER_DONE
           : step == STEP_INTERRUPTED ? TRANSFER_INTERRUPTED
           : was_sent                 ? TRANSFER_FAILED
                                      : TRANSFER_NOT_SENT;
}
