/* Bytes on a socket, for what no decent HTTP client would send. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness_world.h"

enum { RAW_MAX = 256 * 1024, POLL_MS = 50 };

struct raw {
    struct world *world;
    int fd;
    char *got;
    size_t got_len;
    bool closed;
};

static void raw_undo(void *thing)
{
    struct raw *raw = thing;

    if (raw->fd >= 0)
        close(raw->fd);
    free(raw->got);
    free(raw);
}

struct raw *raw_open_as(struct front *fe, const char *from, int receive_buffer)
{
    struct raw *raw = calloc(1, sizeof(*raw));
    struct sockaddr_in here = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)fe->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    if (raw == NULL)
        abort();
    raw->world = fe->world;
    raw->got = calloc(1, RAW_MAX + 1);
    raw->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    world_defer(fe->world, raw_undo, raw);
    if (from != NULL && (inet_pton(AF_INET, from, &here.sin_addr) != 1 ||
                         bind(raw->fd, (struct sockaddr *)&here, sizeof(here)) != 0))
        FAIL("cannot bind to %s: %s", from, strerror(errno));
    if (receive_buffer > 0)
        setsockopt(raw->fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    if (raw->got == NULL || connect(raw->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        FAIL("cannot connect to port %d: %s", fe->port, strerror(errno));
    return raw;
}

struct raw *raw_open(struct front *fe)
{
    return raw_open_as(fe, NULL, 0);
}

void raw_send(struct raw *raw, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(raw->fd, bytes, len, MSG_NOSIGNAL);

        /* A server that refuses early may have closed: its answer is what counts. */
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

void raw_text(struct raw *raw, const char *format, ...)
{
    char *bytes = NULL;
    va_list args;
    int len;

    va_start(args, format);
    len = vasprintf(&bytes, format, args);
    va_end(args);
    if (len < 0)
        abort();
    raw_send(raw, bytes, (size_t)len);
    free(bytes);
}

/* Reads what there is; false when nothing came and the patience has ended. */
static bool raw_more(struct raw *raw, struct patience *patience)
{
    struct pollfd poll_fd = {.fd = raw->fd, .events = POLLIN};
    ssize_t n;

    if (raw->closed)
        return false;
    while (poll(&poll_fd, 1,
                (int)(patience->left_ms < POLL_MS ? patience->left_ms : POLL_MS)) <= 0) {
        if (patience_ends(patience))
            return false;
    }
    n = recv(raw->fd, raw->got + raw->got_len, RAW_MAX - raw->got_len, 0);
    if (n <= 0) {
        raw->closed = true;
        return false;
    }
    raw->got_len += (size_t)n;
    raw->got[raw->got_len] = '\0';
    return true;
}

static size_t body_len(const char *head)
{
    const char *field = strcasestr(head, "\nContent-Length:");

    return field != NULL ? (size_t)atoi(field + strlen("\nContent-Length:")) : 0;
}

struct reply *raw_reply(struct raw *raw, int64_t ms)
{
    struct reply *reply = reply_new(raw->world);
    struct patience patience = patience_of(ms);
    char *head = NULL, *end;
    size_t head_len, len;

    while ((end = strstr(raw->got, "\r\n\r\n")) == NULL) {
        if (!raw_more(raw, &patience))
            return reply;
    }
    head_len = (size_t)(end - raw->got) + 4;
    head = strndup(raw->got, head_len);
    len = body_len(head);
    while (raw->got_len < head_len + len) {
        if (!raw_more(raw, &patience)) {
            free(head);
            return reply;
        }
    }
    sscanf(head, "HTTP/1.1 %d", &reply->status);
    reply_parse(reply, head, strndup(raw->got + head_len, len));
    raw->got_len -= head_len + len;
    memmove(raw->got, raw->got + head_len + len, raw->got_len + 1);
    return reply;
}

bool raw_closed(struct raw *raw, int64_t ms)
{
    struct patience patience = patience_of(ms);

    while (raw_more(raw, &patience))
        continue;
    return raw->closed;
}

void raw_shut_write(struct raw *raw)
{
    shutdown(raw->fd, SHUT_WR);
}

void raw_close(struct raw *raw)
{
    close(raw->fd);
    raw->fd = -1;
}

void raw_reset(struct raw *raw)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    setsockopt(raw->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    raw_close(raw);
}
