/* HTTP/1.1 over keep-alive sockets, plain or with TLS, one thread, one epoll: a request out,
 * its answer in, and the time between. */
#ifndef RLOCKD_TESTS_BENCH_LOAD_CLIENT_H
#define RLOCKD_TESTS_BENCH_LOAD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct load_client {
    int epoll_fd;
    uint16_t port;
    bool tls;
    size_t opened; /* picks the source address: one has too few ports for all */
};

struct load_answer {
    int status;
    const char *body;
    size_t body_len;
    int64_t latency_ns;
};

/* One connection, which has at most one request under way. */
struct load_conn {
    struct load_client *client;
    int fd;
    struct gnutls_session_int *tls; /* NULL: plain */
    int64_t sent_ns;
    /* The whole answer is there. May send the next request. */
    void (*answered)(struct load_conn *conn, const struct load_answer *answer);
    void *arg;
    char *partial; /* of an answer that came in pieces */
    size_t partial_len;
};

static inline int64_t load_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Says what went wrong and exits: a run with errors is no measurement. */
void load_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

void load_client_init(struct load_client *client, uint16_t port, bool tls);
void load_client_release(struct load_client *client);
/* Takes what has come, waiting at most so long. */
void load_client_poll(struct load_client *client, int timeout_ms);

void load_conn_open(struct load_conn *conn, struct load_client *client,
                    void (*answered)(struct load_conn *conn, const struct load_answer *answer),
                    void *arg);
void load_conn_close(struct load_conn *conn);
void load_conn_send(struct load_conn *conn, const char *text, size_t len);

/* load_tls.c */
/* Speaks TLS on the connected socket from now on; no certificate is checked. */
void load_tls_open(struct load_conn *conn);
void load_tls_close(struct load_conn *conn);
/* As send() and recv() without blocking; EAGAIN: no whole record is there. */
ssize_t load_tls_send(struct load_conn *conn, const char *text, size_t len);
ssize_t load_tls_receive(struct load_conn *conn, char *text, size_t size);
bool load_tls_has_more(const struct load_conn *conn);

#endif
