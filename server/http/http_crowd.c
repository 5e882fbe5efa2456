/* Connections are looked at in turn, a few at a time: for clients that have gone, and when more
 * than half of the connections are taken, for clients that do not read. A client that makes no
 * progress loses its connection before a client that does. */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/http/addresses.h"
#include "server/http/http_conn.h"
#include "server/tls/tls.h"

#define ROUND_NS (1 * CLOCK_NS_PER_S)
#define ROUND_CROWDED_NS (CLOCK_NS_PER_S / 10)
#define STEP_NS (10 * CLOCK_NS_PER_MS)
/* Of one step: some 0.2 ms. */
enum { LOOKS_PER_STEP = 256 };
/* Of one sweep: libmicrohttpd and the kernel take some 20 µs to close a connection. */
enum { ENDS_PER_SWEEP = 128 };

/* When connections run short, a client gets so long to send its first byte, or to go on
 * reading, and so long to send its whole request; and less when there is no connection left. */
#define GRACE_NS (1 * CLOCK_NS_PER_S)
#define GRACE_FULL_NS (CLOCK_NS_PER_S / 4)
#define SENDER_GRACE_NS (3 * CLOCK_NS_PER_S)
#define SENDER_GRACE_FULL_NS (1 * CLOCK_NS_PER_S)
/* Longer than a grace, after which a client that makes no progress would have been cut off. */
#define SUSPICION_NS (3 * CLOCK_NS_PER_S / 2)
/* A client may end its side of the stream behind a whole request: that request has its
 * answer, or is with its handler, after so long. */
#define ENDED_GRACE_NS (CLOCK_NS_PER_S / 2)

/* A client that has read so much of what it had not read before has made progress. */
enum { PROGRESS_BYTES = 16 * 1024 };

/* Passes over the idle connections, to find those of the largest addresses. */
enum { IDLE_PASSES = 4 };

static size_t count(const struct http_conns *conns)
{
    size_t sum = 0;

    for (int state = 0; state < HTTP_CONN_LEAVING; state++)
        sum += conns->counts[state];
    return sum;
}

static bool is_full(const struct http_conns *conns)
{
    return count(conns) + conns->counts[HTTP_CONN_LEAVING] >= conns->limit;
}

/* How many connections have to go so that an eighth of all is left for new clients. */
static size_t excess(const struct http_conns *conns)
{
    size_t most = conns->limit - conns->limit / 8, now = count(conns);

    return now > most ? now - most : 0;
}

static void cut_off(struct http_conns *conns, struct http_conn *conn, int64_t now_ns)
{
    http_conn_cut_off(conns, conn, METRIC_CUT_OFF_FULL, now_ns);
    conns->relieved_ns = now_ns;
}

/* --- looks -------------------------------------------------------------------------------- */

/* The end of a stream that comes together with other bytes is lost on libmicrohttpd, which
 * reads only those bytes and hears of nothing after them. The hello of a TLS client waits
 * unread for its turn, so that the end behind it cannot be read. */
static bool has_ended(const struct http_conn *conn, int64_t now_ns)
{
    char byte;

    return now_ns - conn->since_ns > ENDED_GRACE_NS &&
           (recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ||
            tls_conn_has_left(conn->tls));
}

/* Notes what the client has to read, and when it last went on reading. */
static void look_at_reader(struct http_conns *conns, struct http_conn *conn, int64_t now_ns)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    int unread = 0;

    if (getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        ioctl(conn->fd, SIOCOUTQ, &unread) != 0)
        return; /* closed */
    bool is_unread = unread > 0 && conn->state == HTTP_CONN_IDLE;
    conns->unread += (size_t)is_unread - (size_t)conn->is_unread;
    conn->is_unread = is_unread;
    if (unread > 0 && info.tcpi_bytes_acked < conn->read_goal)
        return;
    conn->read_ns = now_ns;
    conn->read_goal = info.tcpi_bytes_acked +
                      (uint64_t)(unread < PROGRESS_BYTES ? unread : PROGRESS_BYTES);
}

static bool is_stuck(const struct http_conns *conns, const struct http_conn *conn,
                     int64_t now_ns)
{
    return now_ns - conn->read_ns > (is_full(conns) ? GRACE_FULL_NS : GRACE_NS);
}

static void look(struct http_conns *conns, struct http_conn *conn, int64_t now_ns)
{
    switch (conn->state) {
    case HTTP_CONN_FRESH:
    case HTTP_CONN_RECEIVING:
    case HTTP_CONN_IDLE:
        if (has_ended(conn, now_ns)) {
            http_conn_end(conns, conn, now_ns);
            return;
        }
        break;
    case HTTP_CONN_REPLYING:
        break;
    case HTTP_CONN_BUSY:
    case HTTP_CONN_LEAVING:
    case HTTP_CONN_STATES:
        return;
    }
    if (count(conns) <= conns->limit / 2)
        return;
    look_at_reader(conns, conn, now_ns);
    if (excess(conns) > 0 && is_stuck(conns, conn, now_ns))
        cut_off(conns, conn, now_ns);
}

static void take_step(struct http_conns *conns, int64_t now_ns)
{
    conns->step_ns = now_ns;
    if (conns->next_look == NULL) {
        conns->next_look = conns->all;
        conns->round_ns = now_ns;
    }
    for (int i = 0; i < LOOKS_PER_STEP && conns->next_look != NULL && conns->ends_left > 0;
         i++) {
        struct http_conn *conn = conns->next_look;
        conns->next_look = conn->all_next;
        look(conns, conn, now_ns);
    }
}

/* --- room --------------------------------------------------------------------------------- */

static bool has_to_go_on(const struct http_conns *conns)
{
    return excess(conns) > 0 && conns->ends_left > 0;
}

static void cut_off_slow_senders(struct http_conns *conns, enum http_conn_state state,
                                 int64_t grace_ns, int64_t now_ns)
{
    struct http_conn *conn, *next;

    DL_FOREACH_SAFE(conns->lists[state], conn, next) {
        if (!has_to_go_on(conns) || now_ns - conn->since_ns <= grace_ns)
            return;
        cut_off(conns, conn, now_ns);
    }
}

/* Connections whose clients may turn out to make no progress are too many: idle connections
 * stay until those clients have had their grace. */
static bool has_suspects(const struct http_conns *conns, int64_t now_ns)
{
    size_t suspects = conns->counts[HTTP_CONN_FRESH] + conns->counts[HTTP_CONN_RECEIVING] +
                      conns->counts[HTTP_CONN_REPLYING] + conns->unread;

    return suspects > conns->limit / 8 && now_ns - conns->relieved_ns < SUSPICION_NS;
}

/* The most connections that an address with an idle connection here has. */
static int largest_address(const struct http_conns *conns)
{
    const struct http_conn *conn;
    int largest = 0;

    DL_FOREACH(conns->lists[HTTP_CONN_IDLE], conn) {
        int connections = address_connections(conn->address);
        largest = connections > largest ? connections : largest;
    }
    return largest;
}

/* Of the addresses with the most connections, and of those the connections that have been idle
 * for longest. */
static void cut_off_idle(struct http_conns *conns, int64_t now_ns)
{
    for (int i = 0; i < IDLE_PASSES && has_to_go_on(conns); i++) {
        int largest = largest_address(conns), smallest = largest - largest / 8;
        struct http_conn *conn, *next;
        DL_FOREACH_SAFE(conns->lists[HTTP_CONN_IDLE], conn, next) {
            if (!has_to_go_on(conns))
                return;
            if (address_connections(conn->address) >= smallest)
                cut_off(conns, conn, now_ns);
        }
    }
}

static void make_room(struct http_conns *conns, int64_t now_ns)
{
    bool full = is_full(conns);

    if (excess(conns) == 0) {
        conns->relieved_ns = now_ns;
        return;
    }
    cut_off_slow_senders(conns, HTTP_CONN_FRESH, full ? GRACE_FULL_NS : GRACE_NS, now_ns);
    cut_off_slow_senders(conns, HTTP_CONN_RECEIVING,
                         full ? SENDER_GRACE_FULL_NS : SENDER_GRACE_NS, now_ns);
    if (conns->next_look == NULL && !has_suspects(conns, now_ns))
        cut_off_idle(conns, now_ns);
}

void http_crowd_sweep(struct http_conns *conns, int64_t now_ns)
{
    conns->ends_left = ENDS_PER_SWEEP;
    http_conns_end_overdue(conns, now_ns);
    take_step(conns, now_ns);
    make_room(conns, now_ns);
}

int64_t http_crowd_next_sweep_ns(const struct http_conns *conns)
{
    if (conns->next_look != NULL || conns->ends_left <= 0)
        return conns->step_ns + STEP_NS;
    return conns->round_ns + (excess(conns) > 0 ? ROUND_CROWDED_NS : ROUND_NS);
}

void http_crowd_entered(struct http_conns *conns, int64_t now_ns)
{
    if (excess(conns) == 0)
        conns->relieved_ns = now_ns;
    else if (now_ns - conns->step_ns >= STEP_NS)
        http_crowd_sweep(conns, now_ns);
}
