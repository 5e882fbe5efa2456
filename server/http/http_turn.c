/* When libmicrohttpd runs: in each turn of the loop, within a budget. */
#include <microhttpd.h>

#include "server/base/clock.h"
#include "server/http/http_internal.h"

/* While a request is on the fast path, or a TLS handshake is under way, libmicrohttpd does not
 * tell whether other connections have input that it has not read (see has_unread_input()): it
 * is run this often, so that none of them waits for that request or handshake. */
#define TICK_NS (1 * CLOCK_NS_PER_MS)
/* A run asks each handshake under way to go on, in about a microsecond: with every so many more
 * handshakes the ticks are TICK_NS further apart. */
enum { HANDSHAKES_PER_TICK = 64 };

static void on_readable(void *arg, uint32_t epoll_events)
{
    struct http_server *server = arg;

    (void)epoll_events;
    server->readable = true;
}

/* Does MHD_get_timeout() say zero anyway? It does while any unsuspended request waits for its
 * handler or its answer, which ends within UNPARKED_NS, and while any TLS handshake waits for
 * its client. */
static bool is_always_ready(const struct http_server *server)
{
    return server->not_suspended > 0 || server->tls_gate.under_way > 0;
}

static bool has_unread_input(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    return !is_always_ready(server) && !budget_has_put_off(&server->budget) &&
           MHD_get_timeout(server->daemon, &timeout_ms) == MHD_YES && timeout_ms == 0;
}

static int64_t tick_interval_ns(const struct http_server *server)
{
    const struct tls_gate *gate = &server->tls_gate;
    bool has_work = server->not_suspended > 0 || gate->is_holding;

    return has_work ? TICK_NS : TICK_NS * (1 + (int64_t)gate->under_way / HANDSHAKES_PER_TICK);
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

    tls_gate_open(&server->tls_gate);
    if ((server->readable || server->run_wanted) && run_within_budget(server)) {
        server->run_wanted = true;
        loop_again(server->options.loop);
    }
    if (is_always_ready(server) && !timer_is_armed(&server->tick))
        timer_arm(loop_timers(server->options.loop), &server->tick,
                  loop_now_ns(server->options.loop) + tick_interval_ns(server));
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
