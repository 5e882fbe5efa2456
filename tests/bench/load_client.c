/* The connections of the load: answers that come in pieces are put together and timed. */
#include "tests/bench/load_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ANSWER_MAX = 128 * 1024, /* the metrics page is the longest */
    EVENTS_MAX = 256,
    CONNECTIONS_PER_ADDRESS = 20000
};

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

void load_fail(const char *format, ...)
{
    va_list args;

    fputs("load: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void load_client_init(struct load_client *client, uint16_t port, bool tls)
{
    *client = (struct load_client){.port = port, .tls = tls};
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (client->epoll_fd < 0)
        load_fail("epoll_create1: %s", strerror(errno));
}

void load_client_release(struct load_client *client)
{
    close(client->epoll_fd);
}

/* --- connections -------------------------------------------------------------------------- */

void load_conn_open(struct load_conn *conn, struct load_client *client,
                    void (*answered)(struct load_conn *conn, const struct load_answer *answer),
                    void *arg)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    const int one = 1;

    *conn = (struct load_conn){.client = client, .answered = answered, .arg = arg};
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK +
                                 (uint32_t)(client->opened++ / CONNECTIONS_PER_ADDRESS));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(client->port);
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0)
        load_fail("socket: %s", strerror(errno));
    setsockopt(conn->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (bind(conn->fd, (struct sockaddr *)&from, sizeof(from)) != 0 ||
        connect(conn->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        load_fail("cannot connect to port %u: %s", client->port, strerror(errno));
    if (client->tls)
        load_tls_open(conn);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0)
        load_fail("epoll_ctl: %s", strerror(errno));
}

void load_conn_close(struct load_conn *conn)
{
    if (conn->tls != NULL)
        load_tls_close(conn);
    close(conn->fd);
    free(conn->partial);
    conn->partial = NULL;
}

void load_conn_send(struct load_conn *conn, const char *text, size_t len)
{
    conn->sent_ns = load_now_ns();
    ssize_t sent = conn->tls ? load_tls_send(conn, text, len)
                             : send(conn->fd, text, len, MSG_NOSIGNAL);
    if (sent != (ssize_t)len)
        load_fail("send: %s", strerror(errno));
}

/* --- answers ------------------------------------------------------------------------------ */

/* The length of the body, from the headers; all that is measured here says its length. */
static size_t body_length(const char *head, const char *end)
{
    static const char name[] = "\ncontent-length:";

    for (const char *line = head; line != NULL && line < end;
         line = memchr(line + 1, '\n', (size_t)(end - line - 1)))
        if (strncasecmp(line, name, sizeof(name) - 1) == 0)
            return strtoul(line + sizeof(name) - 1, NULL, 10);
    load_fail("an answer without Content-Length");
}

/* True when `text` begins with a whole answer. `text` has a NUL behind its end. */
static int parse_answer(const char *text, size_t len, struct load_answer *answer)
{
    const char *end = memmem(text, len, "\r\n\r\n", 4);

    if (end == NULL)
        return 0;
    answer->status = len > 12 ? (int)strtol(text + 9, NULL, 10) : 0;
    answer->body = end + 4;
    answer->body_len = body_length(text, end);
    size_t whole = (size_t)(answer->body - text) + answer->body_len;
    if (len > whole)
        load_fail("more than one answer to one request");
    return len == whole;
}

static void keep_partial(struct load_conn *conn, const char *text, size_t len)
{
    char *kept = realloc(conn->partial, len);

    if (kept == NULL)
        load_fail("out of memory");
    memcpy(kept, text, len);
    conn->partial = kept;
    conn->partial_len = len;
}

static void take_input(struct load_conn *conn)
{
    static char text[ANSWER_MAX + 1];
    struct load_answer answer = {0};
    size_t len = conn->partial_len;

    memcpy(text, conn->partial ? conn->partial : "", len);
    ssize_t got = conn->tls ? load_tls_receive(conn, text + len, ANSWER_MAX - len)
                            : recv(conn->fd, text + len, ANSWER_MAX - len, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        load_fail("the server closed a connection: %s", got < 0 ? strerror(errno) : "end");
    len += (size_t)got;
    text[len] = '\0';
    if (!parse_answer(text, len, &answer)) {
        keep_partial(conn, text, len);
        return;
    }
    conn->partial_len = 0;
    answer.latency_ns = load_now_ns() - conn->sent_ns;
    conn->answered(conn, &answer);
}

void load_client_poll(struct load_client *client, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(client->epoll_fd, events, EVENTS_MAX, timeout_ms);

    for (int i = 0; i < count; i++) {
        struct load_conn *conn = events[i].data.ptr;
        do
            take_input(conn);
        while (conn->tls != NULL && load_tls_has_more(conn));
    }
}
