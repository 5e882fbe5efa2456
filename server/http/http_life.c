/* When a server begins to accept connections, and how it ends. */
#include <assert.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server/http/http_internal.h"

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

void http_drain(struct http_server *server)
{
    server->draining = true;
}

void http_close_door(struct http_server *server)
{
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
    budget_begin_turn(&server->budget, loop_now_ns(server->options.loop));
    MHD_run(server->daemon);
    if (server->is_open)
        loop_watch_remove(server->options.loop, &server->epoll);
    timer_cancel(loop_timers(server->options.loop), &server->sweep);
    timer_cancel(loop_timers(server->options.loop), &server->tick);
    MHD_stop_daemon(server->daemon);
    loop_hook_remove(server->options.loop, &server->turn);
    log_buffer_flush(server->options.log);
    http_pools_release(server);
    free(server);
}
