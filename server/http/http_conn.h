/* A worker's connections: http_conn.c has their states and time limits, http_crowd.c looks at
 * them in turn, and chooses which are closed when connections run short. */
#ifndef RLOCKD_SERVER_HTTP_HTTP_CONN_H
#define RLOCKD_SERVER_HTTP_HTTP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/metrics.h"

struct MHD_Connection;
struct address;
struct addresses;
struct http_options;
struct sockaddr;
struct tls_conn;

/* Where a connection stands, which decides how long it may stay there. */
enum http_conn_state {
    HTTP_CONN_FRESH,     /* open, no request line yet */
    HTTP_CONN_IDLE,      /* kept alive after an answer */
    HTTP_CONN_RECEIVING, /* a request line came, the rest is on its way */
    HTTP_CONN_BUSY,      /* the handler has to answer, within a deadline of its own */
    HTTP_CONN_REPLYING,  /* the answer is on its way */
    HTTP_CONN_LEAVING,   /* ended by this server: libmicrohttpd closes it in its next run */
    HTTP_CONN_STATES
};

struct http_conn {
    struct http_conn *prev, *next;         /* the list of its state, oldest first */
    struct http_conn *all_prev, *all_next; /* the list of all connections */
    struct MHD_Connection *mhd;
    struct tls_conn *tls;    /* NULL: no TLS */
    struct address *address; /* NULL while LEAVING */
    int64_t since_ns;
    int64_t read_ns;    /* the last look at which the client had gone on reading */
    uint64_t read_goal; /* bytes: a client that has read so many has gone on since then */
    int fd;
    enum http_conn_state state;
    uint64_t round; /* see budget.h */
    bool is_unread; /* IDLE, with an answer that the client had not read at the last look */
};

/* Connections by state. */
struct http_conns {
    struct http_conn *lists[HTTP_CONN_STATES], *all;
    size_t counts[HTTP_CONN_STATES], unread, limit;
    struct http_conn *next_look; /* NULL: all were looked at in this round */
    int64_t round_ns, step_ns;   /* when the round began, and when it went on */
    int64_t relieved_ns;         /* when there was room, or room was made */
    int ends_left;               /* how many connections the last sweep might have ended yet */
    struct addresses *addresses;
    struct metrics *metrics;
};

void http_conns_init(struct http_conns *conns, const struct http_options *options);
/* Cuts the connection off at once, so that it is LEAVING, when its address has too many. NULL:
 * out of memory. */
struct http_conn *http_conn_open(struct http_conns *conns, struct MHD_Connection *mhd, int fd,
                                 const struct sockaddr *client, int64_t now_ns);
/* Does nothing to a connection that is LEAVING. */
void http_conn_move(struct http_conns *conns, struct http_conn *conn,
                    enum http_conn_state state, int64_t now_ns);
void http_conn_close(struct http_conns *conns, struct http_conn *conn);
/* Ends the stream; the connection is LEAVING then. */
void http_conn_end(struct http_conns *conns, struct http_conn *conn, int64_t now_ns);
/* The same, and counts it. The client of an unread answer gets a reset. */
void http_conn_cut_off(struct http_conns *conns, struct http_conn *conn, enum metric reason,
                       int64_t now_ns);
/* Cuts off connections that have been in their state for too long, at most `ends_left`. */
void http_conns_end_overdue(struct http_conns *conns, int64_t now_ns);

/* One sweep: ends what is overdue, looks at some of the connections, and makes room. It ends
 * only a few connections, because libmicrohttpd closes them all in its next run; another sweep
 * follows soon. */
void http_crowd_sweep(struct http_conns *conns, int64_t now_ns);
/* When to sweep next, in ns of clock_ns(): a new connection may bring this time forward. */
int64_t http_crowd_next_sweep_ns(const struct http_conns *conns);
/* A connection was opened, and is not LEAVING: cuts other connections off when connections run
 * short, so that new requests, releases among them, find one. */
void http_crowd_entered(struct http_conns *conns, int64_t now_ns);

#endif
