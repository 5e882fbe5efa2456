/* server/http/http_conn.c and http_crowd.c: how many connections a turn ends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/http/addresses.h"
#include "server/http/http.h"
#include "server/http/http_conn.h"

enum { CONNECTIONS = 400, ENDS_MAX = 128, SILENCE_S = 10, STEPS = 4 };

static struct metrics metrics;
static struct addresses *addresses;
static struct http_conns conns;
static int clients[CONNECTIONS];

/* `limit`: of all connections. They are opened at once, at the time 1 ns. */
static void open_all(int limit)
{
    const struct sockaddr_in from = {.sin_family = AF_INET};
    const struct http_options options = {
        .max_connections = limit, .addresses = addresses, .metrics = &metrics};

    http_conns_init(&conns, &options);
    for (int i = 0; i < CONNECTIONS; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        clients[i] = pair[0];
        assert_non_null(
            http_conn_open(&conns, NULL, pair[1], (const struct sockaddr *)&from, 1));
    }
}

static void close_all(void)
{
    while (conns.all != NULL) {
        close(conns.all->fd);
        http_conn_close(&conns, conns.all);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        close(clients[i]);
}

/* Sweeps as often as is asked for, until no more connections than `left` are left. */
static void sweep_until(int64_t now_ns, size_t left)
{
    for (int i = 0; i < STEPS; i++) {
        size_t leaving = conns.counts[HTTP_CONN_LEAVING];
        http_crowd_sweep(&conns, now_ns);
        assert_in_range(conns.counts[HTTP_CONN_LEAVING] - leaving, 0, ENDS_MAX);
        if (CONNECTIONS - conns.counts[HTTP_CONN_LEAVING] <= left)
            return;
        assert_in_range(http_crowd_next_sweep_ns(&conns), now_ns,
                        now_ns + CLOCK_NS_PER_S / 100);
        now_ns = http_crowd_next_sweep_ns(&conns);
    }
    fail_msg("%zu connections are left", CONNECTIONS - conns.counts[HTTP_CONN_LEAVING]);
}

static void silent_connections_end_a_few_at_a_time(void **state)
{
    (void)state;
    open_all(10 * CONNECTIONS);
    sweep_until(SILENCE_S * CLOCK_NS_PER_S + 1, 0);
    close_all();
}

static void room_is_made_a_few_at_a_time(void **state)
{
    (void)state;
    open_all(CONNECTIONS);
    for (struct http_conn *conn = conns.all; conn != NULL; conn = conn->all_next)
        http_conn_move(&conns, conn, HTTP_CONN_RECEIVING, 1);
    /* Half of them are of clients that have gone, the others are too slow. */
    for (int i = 0; i < CONNECTIONS / 2; i++)
        shutdown(clients[i], SHUT_WR);
    sweep_until(2 * CLOCK_NS_PER_S, CONNECTIONS / 2);
    close_all();
}

static int make_addresses(void **state)
{
    (void)state;
    addresses = addresses_new(0);
    return addresses == NULL;
}

static int free_addresses(void **state)
{
    (void)state;
    addresses_free(addresses);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_connections_end_a_few_at_a_time),
        cmocka_unit_test(room_is_made_a_few_at_a_time),
    };

    return cmocka_run_group_tests(tests, make_addresses, free_addresses);
}
