/* When a server begins to accept connections, their beginning and end, and how the server
 * ends. */
#include <assert.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server/http/http_internal.h"
#include "server/http/listen.h"

void http_open(struct http_server *server)
{
    if (server->is_open)
        return;
    server->is_open = true;
    int failed = loop_watch_add(server->options.loop, &server->epoll, EPOLLIN);
    assert(failed == 0);
    (void)failed;
    server->run_wanted = true;
}

static void arm_sweep(struct http_server *server)
{
    timer_arm(loop_timers(server->options.loop), &server->sweep,
              http_crowd_next_sweep_ns(&server->conns));
}

static void open_connection(struct http_server *server, struct MHD_Connection *mhd,
                            void **context)
{
    int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    const struct sockaddr *client =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    int64_t now_ns = loop_now_ns(server->options.loop);
    struct http_conn *conn = http_conn_open(&server->conns, mhd, fd, client, now_ns);

    if (conn != NULL && conn->state != HTTP_CONN_LEAVING)
        http_crowd_entered(&server->conns, now_ns);
    *context = conn;
    listen_spread_keepalive(fd);
    if (tls_is_on()) {
        void *session =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
        if (conn != NULL)
            conn->tls = tls_conn_new(&server->tls_gate, session, fd);
        else
            tls_conn_bar(session);
        if (conn != NULL && conn->state == HTTP_CONN_LEAVING)
            tls_conn_end(conn->tls);
    }
    if (http_crowd_next_sweep_ns(&server->conns) < server->sweep.at_ns)
        arm_sweep(server);
}

void http_on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                        enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = arg;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        open_connection(server, mhd, context);
    } else if (*context != NULL) {
        http_conn_close(&server->conns, *context);
        *context = NULL;
        /* At its limit libmicrohttpd stops listening, and begins again only in a later run. */
        server->run_wanted = true;
    }
}

void http_sweep(void *arg)
{
    struct http_server *server = arg;
    int64_t now_ns = loop_now_ns(server->options.loop);

    http_large_trim(&server->large, now_ns);
    http_crowd_sweep(&server->conns, now_ns);
    arm_sweep(server);
}

void http_drain(struct http_server *server)
{
    server->draining = true;
}

void http_close_door(struct http_server *server)
{
    if (!server->options.socket_is_inherited)
        MHD_run(server->daemon); /* accepts the connections that wait in the kernel */
    int fd = MHD_quiesce_daemon(server->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
    server->run_wanted = true;
}

size_t http_busy(const struct http_server *server)
{
    return server->busy;
}

void http_stop(struct http_server *server)
{
    /* libmicrohttpd aborts the process when a connection is still suspended: hence the contract
     * that every handler has answered, and the last run, which continues the resumed
     * connections. */
    server->stopping = true;
    http_listings_refuse(&server->large);
    budget_begin_turn(&server->budget, loop_now_ns(server->options.loop));
    MHD_run(server->daemon);
    if (server->is_open)
        loop_watch_remove(server->options.loop, &server->epoll);
    timer_cancel(loop_timers(server->options.loop), &server->sweep);
    timer_cancel(loop_timers(server->options.loop), &server->tick);
    MHD_stop_daemon(server->daemon);
    loop_hook_remove(server->options.loop, &server->turn);
    log_buffer_flush(server->options.log);
    http_listings_release(&server->large);
    http_pools_release(server);
    free(server);
}
