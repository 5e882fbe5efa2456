/* relay PORT MICROSECONDS: passes on to a port of loopback what comes, and what is answered,
 * each so much later, as a network between two machines does. Prints its own port. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

enum { CHUNK_MAX = 65536, EVENTS_MAX = 64, SLACK_NS = 1000, FULL_NS = 50000 };

/* The bytes of one read. A chunk without bytes is the end of what its sender sends. */
struct chunk {
    struct chunk *prev, *next;
    int64_t due_ns;
    size_t len, sent;
    char bytes[];
};

/* One end of a connection; the chunks are to be sent there. */
struct end {
    int fd;
    struct end *peer;
    struct chunk *chunks;
    struct end *next;
};

static struct end *ends;
static int64_t delay_ns;
static int poll_fd;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void fail(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void watch(int fd, void *end)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = end};

    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

static struct end *end_new(int fd)
{
    struct end *end = calloc(1, sizeof(*end));
    int on = 1;

    if (end == NULL || fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        fail("a connection");
    end->fd = fd;
    LL_PREPEND(ends, end);
    watch(fd, end);
    return end;
}

static void open_pair(int listen_fd, int port)
{
    int near = accept(listen_fd, NULL, NULL), far = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = loopback(port);

    if (near < 0 || connect(far, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail("connect");
    struct end *one = end_new(near), *other = end_new(far);
    one->peer = other;
    other->peer = one;
}

static void take(struct end *from)
{
    static char bytes[CHUNK_MAX];
    ssize_t len = recv(from->fd, bytes, sizeof(bytes), 0);

    if (len < 0 && errno == EAGAIN)
        return;
    if (len <= 0)
        epoll_ctl(poll_fd, EPOLL_CTL_DEL, from->fd, NULL);
    size_t count = len > 0 ? (size_t)len : 0;
    struct chunk *chunk = malloc(sizeof(*chunk) + count);
    if (chunk == NULL)
        fail("a chunk");
    *chunk = (struct chunk){.due_ns = now_ns() + delay_ns, .len = count};
    memcpy(chunk->bytes, bytes, count);
    DL_APPEND(from->peer->chunks, chunk);
}

/* Sends what is due. Returns when the next chunk is, or `first_ns` if that is before. */
static int64_t pass_on(struct end *end, int64_t first_ns)
{
    struct chunk *chunk;

    while ((chunk = end->chunks) != NULL) {
        int64_t now = now_ns();
        if (chunk->due_ns > now)
            return chunk->due_ns < first_ns ? chunk->due_ns : first_ns;
        ssize_t sent = chunk->len == 0 ? shutdown(end->fd, SHUT_WR)
                                       : send(end->fd, chunk->bytes + chunk->sent,
                                              chunk->len - chunk->sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return now + FULL_NS < first_ns ? now + FULL_NS : first_ns;
        chunk->sent += sent > 0 ? (size_t)sent : chunk->len;
        if (chunk->sent < chunk->len)
            continue;
        DL_DELETE(end->chunks, chunk);
        free(chunk);
    }
    return first_ns;
}

static int open_listener(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        fail("listen");
    printf("%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS_MAX];

    if (argc != 3)
        return EXIT_FAILURE;
    delay_ns = atoll(argv[2]) * 1000;
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    poll_fd = epoll_create1(0);
    int listen_fd = open_listener();
    watch(listen_fd, NULL);
    for (;;) {
        int64_t first_ns = INT64_MAX;
        for (struct end *end = ends; end != NULL; end = end->next)
            first_ns = pass_on(end, first_ns);
        int64_t now = now_ns(), left_ns = first_ns > now ? first_ns - now : 0;
        struct timespec left = {.tv_sec = left_ns / 1000000000,
                                .tv_nsec = left_ns % 1000000000};
        int count = epoll_pwait2(poll_fd, events, EVENTS_MAX,
                                 first_ns == INT64_MAX ? NULL : &left, NULL);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == NULL)
                open_pair(listen_fd, atoi(argv[1]));
            else
                take(events[i].data.ptr);
        }
    }
}
