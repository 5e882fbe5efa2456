/* The requests of the clients of `live`, over sockets. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tests/faults/live.h"
#include "tests/sim/bytes.h"
#include "tests/sim/schedule.h"
#include "tests/sim/http.h"

#define CONNECT_NS (3 * CLOCK_NS_PER_S)

static int ports[FRONTS_MAX];

/* The connections of a thread, kept for its next request; descriptor 0: none. */
static __thread int kept[FRONTS_MAX];

void http_set_ports(int count, char **texts)
{
    for (int i = 0; i < count && i < FRONTS_MAX; i++)
        ports[i] = (int)strtol(texts[i], NULL, 10);
}

void http_hang_up(void)
{
    for (int i = 0; i < FRONTS_MAX; i++)
        if (kept[i] > 0)
            close(kept[i]);
}

/* --- connections
 * ------------------------------------------------------------------------------------------ */

/* Whether something happens at the socket in time. */
static bool is_ready(int fd, short events, int64_t deadline_ns)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};

    for (;;) {
        int64_t left_ns = deadline_ns - now_ns();
        int count = poll(&poll_fd, 1, left_ns > 0 ? (int)(left_ns / CLOCK_NS_PER_MS) + 1 : 0);
        if (count > 0)
            return true;
        if (count == 0 && now_ns() >= deadline_ns)
            return false;
    }
}

static bool is_open(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* -1: nobody answers there. */
static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0, on = 1;
    socklen_t size = sizeof(error);

    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
        (errno == EINPROGRESS && is_ready(fd, POLLOUT, now_ns() + CONNECT_NS) &&
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0))
        return fd;
    close(fd);
    return -1;
}

static int take_connection(int number)
{
    int fd = kept[number];

    kept[number] = 0;
    if (fd > 0 && is_open(fd))
        return fd;
    if (fd > 0)
        close(fd);
    return connect_to(ports[number]);
}

/* Hangs up, with a FIN or a RST. */
static void hang_up(int fd, bool with_reset)
{
    struct linger at_once = {.l_onoff = 1};

    if (with_reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}

/* --- a request and its answer
 * ------------------------------------------------------------------------------------------ */

static void add_header(struct buffer *text, const char *name, const char *value)
{
    if (value[0] != '\0')
        buffer_format(text, "%s: %s\r\n", name, value);
}

static void add_target(struct buffer *text, const char *uri)
{
    for (; *uri != '\0'; uri++)
        buffer_format(text, *uri == '{' || *uri == '}' ? "%%%02X" : "%c", *uri);
}

static bool send_request(int fd, const struct request *request)
{
    struct buffer text = {0};

    buffer_format(&text, "%s ", request->method);
    add_target(&text, request->uri);
    buffer_format(&text, " HTTP/1.1\r\nHost: localhost\r\n");
    add_header(&text, "Lease-Token", request->lease_token);
    add_header(&text, "Session-Token", request->session_token);
    add_header(&text, "Idempotency-Key", request->idempotency_key);
    if (strcmp(request->method, "GET") != 0)
        add_header(&text, "Content-Length", "0");
    buffer_format(&text, "\r\n");
    /* Shorter than the buffer of a socket. */
    bool is_sent = send(fd, text.text, text.len, MSG_NOSIGNAL) == (ssize_t)text.len;
    buffer_release(&text);
    return is_sent;
}

/* The head of an answer, as far as it matters. */
struct head {
    int status;
    bool is_problem, closes;
    size_t len, body_len;
};

/* False: it has not come yet. */
static bool parse_head(const struct buffer *text, struct head *head)
{
    const char *end = memmem(text->text, text->len, "\r\n\r\n", 4), *line = text->text;

    if (end == NULL)
        return false;
    head->status = strncmp(line, "HTTP/1.1 ", 9) == 0 ? (int)strtol(line + 9, NULL, 10) : 0;
    head->len = (size_t)(end - text->text) + 4;
    while ((line = memchr(line, '\n', (size_t)(end - line))) != NULL && ++line < end) {
        if (strncasecmp(line, "Content-Length: ", 16) == 0)
            head->body_len = strtoul(line + 16, NULL, 10);
        head->is_problem |= strncasecmp(line, "Content-Type: application/problem+json", 38) ==
                            0;
        head->closes |= strncasecmp(line, "Connection: close", 17) == 0;
    }
    return true;
}

/* Whether the whole answer came in time. */
static bool receive(int fd, struct buffer *text, struct head *head, int64_t deadline_ns,
                    bool *is_late)
{
    char bytes[4096];

    while (!parse_head(text, head) || text->len < head->len + head->body_len) {
        if (!is_ready(fd, POLLIN, deadline_ns)) {
            *is_late = true;
            return false;
        }
        ssize_t count = recv(fd, bytes, sizeof(bytes), 0);
        if (count <= 0)
            return false;
        buffer_add(text, bytes, (size_t)count);
    }
    return true;
}

static struct answer exchange(int number, const struct request *request)
{
    struct answer answer = {.is_sent = true};
    bool may_abandon = request->abandon_ns > 0 && request->abandon_ns < request->timeout_ns;
    int64_t began_ns = now_ns();
    struct buffer text = {0};
    struct head head = {0};
    bool is_late = false;
    int fd = take_connection(number);

    answer.is_sent = fd >= 0;
    if (fd < 0)
        return answer;
    if (send_request(fd, request) &&
        receive(fd, &text, &head,
                began_ns + (may_abandon ? request->abandon_ns : request->timeout_ns),
                &is_late)) {
        answer.status = head.status;
        answer.is_problem = head.is_problem;
        answer.body = json_loadb(text.text + head.len, head.body_len, 0, NULL);
    }
    answer.is_abandoned = is_late && may_abandon;
    if (answer.status != 0 && !head.closes)
        kept[number] = fd;
    else
        hang_up(fd, answer.is_abandoned && now_ns() / CLOCK_NS_PER_US % 2 == 0);
    buffer_release(&text);
    return answer;
}

struct answer http_ask(struct front *front, const struct request *request)
{
    live_leave();
    struct answer answer = exchange(front->number, request);
    live_enter();
    return answer;
}
