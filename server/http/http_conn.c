/* A worker's connections: which of them are idle, and which are closed first. */
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/http/http_internal.h"

#define SWEEP_NS (1 * CLOCK_NS_PER_S)
#define SWEEP_CROWDED_NS (CLOCK_NS_PER_S / 10)
/* What a client gets to send its first byte, and its whole request, when places are few. */
#define FRESH_GRACE_NS (1 * CLOCK_NS_PER_S)
#define FRESH_GRACE_FULL_NS (CLOCK_NS_PER_S / 4)
#define SENDER_GRACE_NS (3 * CLOCK_NS_PER_S)

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
};

void http_conns_init(struct http_conns *conns, const struct http_options *options)
{
    *conns = (struct http_conns){.limit = (size_t)options->max_connections,
                                 .addresses = options->addresses,
                                 .metrics = options->metrics};
}

/* libmicrohttpd sees the end of the stream at its next run and closes the connection. */
static void cut_off(struct http_conns *conns, struct http_conn *conn, enum metric reason)
{
    shutdown(conn->fd, SHUT_RDWR);
    metrics_add(conns->metrics, reason, 1);
}

/* So few connections are left that some have to be closed before new clients find none. */
static bool is_crowded(const struct http_conns *conns)
{
    return conns->count > conns->limit - conns->limit / 8;
}

static bool is_older(const struct http_conn *conn, int64_t age_ns, int64_t now_ns)
{
    return conn != NULL && now_ns - conn->since_ns > age_ns;
}

/* The connection to close when connections run short: first a connection that has sent no byte
 * yet, then an idle connection, then a connection that is slow to send its request. NULL:
 * none. */
static struct http_conn *dispensable(const struct http_conns *conns, int64_t now_ns)
{
    bool is_full = conns->count >= conns->limit; /* and clients may be waiting to be accepted */
    struct http_conn *fresh = conns->lists[HTTP_CONN_FRESH];
    struct http_conn *slow = conns->lists[HTTP_CONN_RECEIVING];

    if (is_older(fresh, is_full ? FRESH_GRACE_FULL_NS : FRESH_GRACE_NS, now_ns))
        return fresh;
    if (conns->fresh_count > conns->limit / 8)
        return NULL; /* it is those that are too many: their time comes within a second */
    if (conns->lists[HTTP_CONN_IDLE] != NULL)
        return conns->lists[HTTP_CONN_IDLE];
    return is_older(slow, SENDER_GRACE_NS, now_ns) ? slow : NULL;
}

/* Cuts off at most `most` connections while there are too many. */
static void make_room(struct http_conns *conns, size_t most, int64_t now_ns)
{
    for (size_t i = 0; i < most && is_crowded(conns); i++) {
        struct http_conn *conn = dispensable(conns, now_ns);
        if (conn == NULL)
            return;
        cut_off(conns, conn, METRIC_CUT_OFF_FULL);
        http_conn_move(conns, conn, HTTP_CONN_REPLYING, now_ns); /* not chosen twice */
    }
}

struct http_conn *http_conn_open(struct http_conns *conns, struct MHD_Connection *mhd, int fd,
                                 const struct sockaddr *client, int64_t now_ns)
{
    struct http_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL)
        return NULL;
    conn->mhd = mhd;
    conn->fd = fd;
    conn->state = HTTP_CONN_FRESH;
    conn->since_ns = now_ns;
    DL_APPEND(conns->lists[HTTP_CONN_FRESH], conn);
    conns->fresh_count++;
    conns->count++;
    metrics_add(conns->metrics, METRIC_CONNECTIONS, 1);
    if (conns->addresses != NULL && client != NULL) {
        conn->address = addresses_enter(conns->addresses, client);
        if (conn->address == NULL) {
            cut_off(conns, conn, METRIC_CUT_OFF_ADDRESS);
            http_conn_move(conns, conn, HTTP_CONN_REPLYING, now_ns);
            return conn;
        }
    }
    make_room(conns, 1, now_ns);
    return conn;
}

void http_conn_move(struct http_conns *conns, struct http_conn *conn,
                    enum http_conn_state state, int64_t now_ns)
{
    DL_DELETE(conns->lists[conn->state], conn);
    conns->fresh_count -= conn->state ==
                          HTTP_CONN_FRESH; /* no connection becomes fresh again */
    conn->state = state;
    conn->since_ns = now_ns;
    DL_APPEND(conns->lists[state], conn);
}

void http_conn_close(struct http_conns *conns, struct http_conn *conn)
{
    DL_DELETE(conns->lists[conn->state], conn);
    conns->fresh_count -= conn->state == HTTP_CONN_FRESH;
    conns->count--;
    metrics_add(conns->metrics, METRIC_CONNECTIONS, -1);
    if (conn->address != NULL)
        addresses_leave(conns->addresses, conn->address);
    free(conn);
}

/* The end of a stream that comes together with a request is lost on libmicrohttpd, which reads
 * only the request and hears of nothing after it: the connection would stay idle. So each
 * connection that has become idle since the last sweep is looked at once. */
static void close_ended(struct http_conns *conns, int64_t now_ns)
{
    struct http_conn *first = conns->lists[HTTP_CONN_IDLE];
    struct http_conn *conn = first != NULL ? first->prev : NULL; /* the last */
    char byte;

    while (conn != NULL && conn->since_ns >= conns->swept_ns) {
        if (recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            shutdown(conn->fd, SHUT_RDWR);
        conn = conn != first ? conn->prev : NULL;
    }
    conns->swept_ns = now_ns;
}

int64_t http_conns_sweep(struct http_conns *conns, int64_t now_ns)
{
    close_ended(conns, now_ns);
    for (int state = 0; state < HTTP_CONN_STATES; state++) {
        int64_t limit_ns = states[state].limit_s * CLOCK_NS_PER_S;
        if (limit_ns == 0)
            continue;
        struct http_conn *conn;
        DL_FOREACH(conns->lists[state], conn) {
            if (now_ns - conn->since_ns < limit_ns)
                break;
            cut_off(conns, conn, states[state].reason);
        }
    }
    if (!is_crowded(conns))
        return now_ns + SWEEP_NS;
    /* Those that were cut off are still counted: no more than it takes. */
    make_room(conns, conns->count - (conns->limit - conns->limit / 8), now_ns);
    return now_ns + SWEEP_CROWDED_NS;
}
