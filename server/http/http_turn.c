/* When libmicrohttpd runs: in each turn of the loop, within a budget. */
#include <microhttpd.h>

#include "server/base/clock.h"
#include "server/http/http_internal.h"

/* While a request is on the fast path, libmicrohttpd does not tell whether other connections
 * have input that it has not read (see has_unread_input()): it is run this often, so that none
 * of them waits for the answer to a request that takes long. */
#define TICK_NS (1 * CLOCK_NS_PER_MS)

static void on_readable(void *arg, uint32_t epoll_events)
{
    struct http_server *server = arg;

    (void)epoll_events;
    server->readable = true;
}

/* MHD_get_timeout() says zero while any unsuspended request waits for its handler or its
 * answer, so it tells of unread input only when there is none; a request that waits for its
 * answer is suspended within UNPARKED_NS. */
static bool has_unread_input(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    return server->not_suspended == 0 && !budget_has_put_off(&server->budget) &&
           MHD_get_timeout(server->daemon, &timeout_ms) == MHD_YES && timeout_ms == 0;
}

/* Runs libmicrohttpd until it has no more work or the budget of the turn is used up. The second
 * run sends the answers that were made in the first; more runs are for requests that are longer
 * than one read. True: there is more to do.
 *
 * A run reads what has arrived on each connection, whatever the budget says: that takes some
 * 3 us for a request. */
static bool run_within_budget(struct http_server *server)
{
    bool more;

    budget_begin_turn(&server->budget, clock_ns());
    do {
        server->readable = false;
        server->run_wanted = false;
        MHD_run(server->daemon);
        more = server->run_wanted || has_unread_input(server);
    } while (more && !budget_ends_turn(&server->budget));
    return more || budget_has_put_off(&server->budget);
}

static void on_turn(void *arg)
{
    struct http_server *server = arg;

    if ((server->readable || server->run_wanted) && run_within_budget(server)) {
        server->run_wanted = true;
        loop_again(server->options.loop);
    }
    if (server->not_suspended > 0 && !timer_is_armed(&server->tick))
        timer_arm(loop_timers(server->options.loop), &server->tick,
                  loop_now_ns(server->options.loop) + TICK_NS);
    log_buffer_flush(server->options.log);
}

static void on_tick(void *arg)
{
    struct http_server *server = arg;

    server->run_wanted = true;
}

void http_turns_init(struct http_server *server)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon,
                                                           MHD_DAEMON_INFO_EPOLL_FD);

    budget_init(&server->budget);
    server->epoll = (struct loop_watch){
        .fd = info->epoll_fd, .ready = on_readable, .arg = server};
    server->tick = (struct timer){.fire = on_tick, .arg = server};
    server->turn = (struct loop_hook){.run = on_turn, .arg = server};
    loop_hook_add(server->options.loop, &server->turn);
}
