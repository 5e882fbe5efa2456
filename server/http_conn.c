#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "server/clock.h"
#include "server/http_internal.h"

/* Longest stay in a state, in seconds; 0: unlimited. The idle time is longer than the 60 s that
 * load balancers keep a connection for, so that it is they who close it. Sending a request may
 * not take longer than a person would wait for it. */
static const int64_t limits_s[HTTP_CONN_STATES] = {
    [HTTP_CONN_FRESH] = 10, [HTTP_CONN_IDLE] = 75,     [HTTP_CONN_RECEIVING] = 10,
    [HTTP_CONN_BUSY] = 0,   [HTTP_CONN_REPLYING] = 30,
};

void http_conns_init(struct http_conns *conns, size_t limit, struct metrics *metrics)
{
    *conns = (struct http_conns){.limit = limit, .metrics = metrics};
}

/* libmicrohttpd sees the end of the stream at its next run and closes the connection. */
static void cut_off(struct http_conns *conns, struct http_conn *conn)
{
    shutdown(conn->fd, SHUT_RDWR);
    metrics_add(conns->metrics, METRIC_HTTP_CUT_OFF, 1);
}

struct http_conn *http_conn_open(struct http_conns *conns, struct MHD_Connection *mhd, int fd,
                                 int64_t now_ns)
{
    struct http_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL)
        return NULL;
    conn->mhd = mhd;
    conn->fd = fd;
    conn->state = HTTP_CONN_FRESH;
    conn->since_ns = now_ns;
    DL_APPEND(conns->lists[HTTP_CONN_FRESH], conn);
    conns->count++;
    metrics_add(conns->metrics, METRIC_CONNECTIONS, 1);
    struct http_conn *idle = conns->lists[HTTP_CONN_IDLE];
    if (conns->count > conns->limit - conns->limit / 8 && idle != NULL) {
        cut_off(conns, idle);
        http_conn_move(conns, idle, HTTP_CONN_REPLYING, now_ns); /* not chosen twice */
    }
    return conn;
}

void http_conn_move(struct http_conns *conns, struct http_conn *conn,
                    enum http_conn_state state, int64_t now_ns)
{
    DL_DELETE(conns->lists[conn->state], conn);
    conn->state = state;
    conn->since_ns = now_ns;
    DL_APPEND(conns->lists[state], conn);
}

void http_conn_close(struct http_conns *conns, struct http_conn *conn)
{
    DL_DELETE(conns->lists[conn->state], conn);
    conns->count--;
    metrics_add(conns->metrics, METRIC_CONNECTIONS, -1);
    free(conn);
}

void http_conns_sweep(struct http_conns *conns, int64_t now_ns)
{
    for (int state = 0; state < HTTP_CONN_STATES; state++) {
        int64_t limit_ns = limits_s[state] * CLOCK_NS_PER_S;
        if (limit_ns == 0)
            continue;
        struct http_conn *conn;
        DL_FOREACH(conns->lists[state], conn) {
            if (now_ns - conn->since_ns < limit_ns)
                break;
            cut_off(conns, conn);
        }
    }
}
