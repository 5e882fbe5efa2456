/* A worker's connections: their states, and how long a connection may stay in each. */
#include "server/http/http_conn.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/http/addresses.h"
#include "server/http/http.h"
#include "server/tls/tls.h"

/* How long a connection may stay in a state, in seconds (0: as long as the handlers need), and
 * the reason that is counted when the connection is closed for staying longer. The idle time is
 * longer than the 60 s for which load balancers keep a connection, so that the load balancer
 * closes it. The time for sending a request is the time that a person would wait for an
 * answer. */
static const struct {
    int64_t limit_s;
    enum metric reason;
} states[HTTP_CONN_STATES] = {
    [HTTP_CONN_FRESH] = {10, METRIC_CUT_OFF_SILENT},
    [HTTP_CONN_IDLE] = {75, METRIC_CUT_OFF_IDLE},
    [HTTP_CONN_RECEIVING] = {10, METRIC_CUT_OFF_SLOW_SENDER},
    [HTTP_CONN_BUSY] = {0},
    [HTTP_CONN_REPLYING] = {30, METRIC_CUT_OFF_SLOW_READER},
    [HTTP_CONN_LEAVING] = {0},
};

void http_conns_init(struct http_conns *conns, const struct http_options *options)
{
    *conns = (struct http_conns){.limit = (size_t)options->max_connections,
                                 .addresses = options->addresses,
                                 .metrics = options->metrics};
}

static void leave_address(struct http_conns *conns, struct http_conn *conn)
{
    if (conn->address != NULL)
        addresses_leave(conns->addresses, conn->address);
    conn->address = NULL;
}

static void enter_state(struct http_conns *conns, struct http_conn *conn,
                        enum http_conn_state state, int64_t now_ns)
{
    conn->state = state;
    conn->since_ns = now_ns;
    DL_APPEND(conns->lists[state], conn);
    conns->counts[state]++;
}

static void leave_state(struct http_conns *conns, struct http_conn *conn)
{
    DL_DELETE(conns->lists[conn->state], conn);
    conns->counts[conn->state]--;
    conns->unread -= conn->is_unread;
    conn->is_unread = false;
}

void http_conn_end(struct http_conns *conns, struct http_conn *conn, int64_t now_ns)
{
    /* libmicrohttpd sees the end of the stream at its next run and closes the connection. */
    shutdown(conn->fd, SHUT_RDWR);
    tls_conn_end(conn->tls);
    leave_address(conns, conn);
    http_conn_move(conns, conn, HTTP_CONN_LEAVING, now_ns);
    conns->ends_left--;
}

void http_conn_cut_off(struct http_conns *conns, struct http_conn *conn, enum metric reason,
                       int64_t now_ns)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};

    /* Without this the kernel would keep an unread answer for minutes after the close. */
    if (conn->state == HTTP_CONN_REPLYING || conn->is_unread)
        setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    metrics_add(conns->metrics, reason, 1);
    http_conn_end(conns, conn, now_ns);
}

struct http_conn *http_conn_open(struct http_conns *conns, struct MHD_Connection *mhd, int fd,
                                 const struct sockaddr *client, int64_t now_ns)
{
    struct http_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL)
        return NULL;
    conn->mhd = mhd;
    conn->fd = fd;
    conn->read_ns = now_ns;
    enter_state(conns, conn, HTTP_CONN_FRESH, now_ns);
    DL_APPEND2(conns->all, conn, all_prev, all_next);
    metrics_add(conns->metrics, METRIC_CONNECTIONS, 1);
    conn->address = addresses_enter(conns->addresses, client);
    if (conn->address == NULL)
        http_conn_cut_off(conns, conn, METRIC_CUT_OFF_ADDRESS, now_ns);
    return conn;
}

void http_conn_move(struct http_conns *conns, struct http_conn *conn,
                    enum http_conn_state state, int64_t now_ns)
{
    if (conn->state == HTTP_CONN_LEAVING)
        return;
    leave_state(conns, conn);
    enter_state(conns, conn, state, now_ns);
}

void http_conn_close(struct http_conns *conns, struct http_conn *conn)
{
    leave_state(conns, conn);
    leave_address(conns, conn);
    tls_conn_free(conn->tls);
    if (conns->next_look == conn)
        conns->next_look = conn->all_next;
    DL_DELETE2(conns->all, conn, all_prev, all_next);
    metrics_add(conns->metrics, METRIC_CONNECTIONS, -1);
    free(conn);
}

void http_conns_end_overdue(struct http_conns *conns, int64_t now_ns)
{
    for (int state = 0; state < HTTP_CONN_STATES; state++) {
        int64_t limit_ns = states[state].limit_s * CLOCK_NS_PER_S;
        struct http_conn *conn, *next;
        if (limit_ns == 0)
            continue;
        DL_FOREACH_SAFE(conns->lists[state], conn, next) {
            if (now_ns - conn->since_ns < limit_ns || conns->ends_left <= 0)
                break;
            http_conn_cut_off(conns, conn, states[state].reason, now_ns);
        }
    }
}
