/* The stages of a request, from its first byte to its end: whether it is answered or dropped,
 * and its suspension, with the watch for a hang-up. */
#include <microhttpd.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "server/http/http_internal.h"
#include "server/tls/tls.h"

/* From the arrival of the whole request to the end of its answer. */
static size_t is_busy(enum http_stage stage)
{
    return stage >= HTTP_STAGE_ARRIVED && stage <= HTTP_STAGE_QUEUED;
}

void http_set_stage(struct http_request *request, enum http_stage stage)
{
    struct http_server *server = request->server;
    enum http_stage before = request->stage;

    server->busy += is_busy(stage) - is_busy(before);
    if (!request->suspended)
        server->not_suspended += (size_t)(stage == HTTP_STAGE_HANDLED) -
                                 (size_t)(before == HTTP_STAGE_HANDLED);
    if (request->is_waiting && stage != HTTP_STAGE_HANDLED)
        http_end_wait(request);
    request->stage = stage;
}

static void unsuspend(struct http_request *request)
{
    loop_watch_remove(request->server->options.loop, &request->hang_up);
    request->suspended = false;
    request->server->not_suspended += request->stage == HTTP_STAGE_HANDLED;
    MHD_resume_connection(request->mhd);
}

/* The client will not be answered any more: tell the handler, once. */
static void report_gone(struct http_request *request)
{
    if (request->stage == HTTP_STAGE_HANDLED && request->gone != NULL &&
        !request->gone_reported) {
        request->gone_reported = true;
        request->gone(request->arg);
    }
}

static void end(struct http_request *request, bool delivered)
{
    if (request->end != NULL)
        request->end(request->arg, delivered);
    http_set_stage(request, HTTP_STAGE_DROPPED);
    http_request_free(request);
}

void http_let_go(struct http_request *request, bool delivered)
{
    request->mhd = NULL;
    request->conn = NULL;
    memset(request->headers, 0, sizeof(request->headers));
    if (request->stage == HTTP_STAGE_HANDLED)
        report_gone(request); /* the handler ends the request, now or later */
    else
        end(request, delivered);
}

/* A hang-up whose event is still to be read: an answer to it would seem delivered. */
static bool has_hung_up(const struct http_request *request)
{
    char byte;

    return recv(request->conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ||
           (tls_is_on() && tls_conn_says_goodbye(request->conn->tls));
}

void http_answered(struct http_request *request)
{
    bool early = request->stage == HTTP_STAGE_HEADERS; /* its body is still to come */

    if (request->mhd == NULL) { /* the client has gone */
        end(request, false);
        return;
    }
    bool gone = request->suspended && has_hung_up(request);
    if (request->suspended)
        unsuspend(request);
    request->close_after |= early;
    http_set_stage(request, gone ? HTTP_STAGE_DROPPED : HTTP_STAGE_ANSWERED);
    request->server->run_wanted = true;
}

void http_drop(struct http_request *request)
{
    if (request->mhd == NULL) {
        http_answered(request);
        return;
    }
    if (request->suspended)
        unsuspend(request);
    http_set_stage(request, HTTP_STAGE_DROPPED);
    request->server->run_wanted = true;
}

static void on_hang_up(void *arg, uint32_t epoll_events)
{
    struct http_request *request = arg;

    if (epoll_events == EPOLLIN && !tls_conn_says_goodbye(request->conn->tls)) {
        /* The next request of the connection, which is read when this request is answered. */
        loop_watch_remove(request->server->options.loop, &request->hang_up);
        if (loop_watch_add(request->server->options.loop, &request->hang_up, EPOLLRDHUP) == 0)
            return;
    }
    /* End of stream, reset or dead peer: all the same. */
    unsuspend(request);
    request->hung_up = true;
    request->server->run_wanted = true;
    report_gone(request);
}

void http_park(struct http_request *request)
{
    struct http_server *server = request->server;

    if (request->hung_up)
        return;
    request->hang_up = (struct loop_watch){
        .fd = request->conn->fd, .ready = on_hang_up, .arg = request};
    if (loop_watch_add(server->options.loop, &request->hang_up,
                       tls_is_on() ? EPOLLIN | EPOLLRDHUP : EPOLLRDHUP) != 0)
        return; /* stays on the fast path, which is only slower */
    server->not_suspended--;
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
}
