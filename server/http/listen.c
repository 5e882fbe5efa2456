/* The listening sockets of TCP: opened here, or by a service manager. */
#include "server/http/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Seconds after which a client is noticed that vanished without closing its connection: at most
 * 13 + 6 × 2. Accepted sockets inherit these options from the listening socket. Between
 * processes of one machine the kernel drops what is more than a thousand packets at a time
 * (net.core.netdev_max_backlog). So connections that began to wait together are asked at
 * different times, and more than once: else those of living clients are taken for dead. */
enum {
    KEEPALIVE_IDLE_S = 6,
    KEEPALIVE_SPREAD_S = 7,
    KEEPALIVE_INTERVAL_S = 2,
    KEEPALIVE_PROBES = 6
};

static int set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value));
}

static int set_keepalive(int fd)
{
    if (set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) != 0 ||
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S) != 0 ||
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S) != 0 ||
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES) != 0)
        return -1;
    return 0;
}

void listen_spread_keepalive(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S + fd % (KEEPALIVE_SPREAD_S + 1));
}

static int set_options(int fd, const struct sockaddr *address, bool shared)
{
    if (set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) != 0 ||
        (shared && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1) != 0) ||
        (address->sa_family == AF_INET6 && set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0) != 0))
        return -1;
    return set_keepalive(fd);
}

/* The new socket, or -1 with errno. */
static int open_one(const struct sockaddr *address, socklen_t len, bool shared)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (set_options(fd, address, shared) != 0 || bind(fd, address, len) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        int saved_errno = errno;
        close(fd);
        errno = saved_errno;
        return -1;
    }
    return fd;
}

/* Whether the address is free: sockets with SO_REUSEPORT would join another process' without a
 * word. On success `address` has the port that was found for port 0. */
static int check_free(struct sockaddr_storage *address, socklen_t *len)
{
    int fd = open_one((struct sockaddr *)address, *len, false);

    if (fd < 0)
        return -1;
    getsockname(fd, (struct sockaddr *)address, len);
    close(fd);
    return 0;
}

static void describe(const struct sockaddr_storage *address, socklen_t len,
                     char where[LISTEN_TEXT_SIZE])
{
    char host[256] = "?", port[16] = "?";

    getnameinfo((const struct sockaddr *)address, len, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(where, LISTEN_TEXT_SIZE, address->ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
             host, port);
}

static int open_all(struct sockaddr_storage *address, socklen_t *len, int *fds, int count)
{
    if (count > 1 && check_free(address, len) != 0)
        return -1;
    for (int i = 0; i < count; i++) {
        fds[i] = open_one((struct sockaddr *)address, *len, count > 1);
        if (fds[i] < 0) {
            while (i-- > 0)
                close(fds[i]);
            return -1;
        }
    }
    if (count == 1)
        getsockname(fds[0], (struct sockaddr *)address, len);
    return 0;
}

int listen_open(const char *host, uint16_t port, int *fds, int count,
                char where[LISTEN_TEXT_SIZE], char *error, size_t error_size)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    struct sockaddr_storage address = {0};
    char service[8];

    snprintf(service, sizeof(service), "%u", port);
    int failed = getaddrinfo(host[0] ? host : NULL, service, &hints, &found);
    if (failed != 0) {
        snprintf(error, error_size, "--listen: %s: %s", host, gai_strerror(failed));
        return -1;
    }
    socklen_t len = found->ai_addrlen;
    memcpy(&address, found->ai_addr, len);
    freeaddrinfo(found);
    if (open_all(&address, &len, fds, count) != 0) {
        snprintf(error, error_size, "--listen: %s:%u: %s%s", host, port, strerror(errno),
                 errno == EADDRINUSE ? " by another process: choose another port" : "");
        return -1;
    }
    describe(&address, len, where);
    return 0;
}

/* ---- from a service manager */

enum { INHERITED_FD = 3 }; /* the first that is passed */

/* How many descriptors the environment says were passed to this process. */
static long inherited_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");

    if (pid == NULL || count == NULL || strtol(pid, NULL, 10) != getpid())
        return 0;
    return strtol(count, NULL, 10);
}

static bool is_listening(int fd, struct sockaddr_storage *address, socklen_t *len)
{
    int type = 0, listens = 0;
    socklen_t type_len = sizeof(type), listens_len = sizeof(listens);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_len) == 0 && listens &&
           getsockname(fd, (struct sockaddr *)address, len) == 0 &&
           (address->ss_family == AF_INET || address->ss_family == AF_INET6);
}

int listen_inherit(int *fds, int count, char where[LISTEN_TEXT_SIZE], char *error,
                   size_t error_size)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);
    long passed = inherited_count();

    if (passed == 0)
        return 0;
    if (passed != 1 || !is_listening(INHERITED_FD, &address, &len)) {
        snprintf(error, error_size,
                 "LISTEN_FDS: exactly one socket is taken, and it has to listen on TCP");
        return -1;
    }
    int filled = 0;
    fds[filled++] = INHERITED_FD;
    while (filled < count &&
           (fds[filled] = fcntl(INHERITED_FD, F_DUPFD_CLOEXEC, INHERITED_FD)) >= 0)
        filled++;
    if (filled < count || set_keepalive(INHERITED_FD) != 0 ||
        fcntl(INHERITED_FD, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(INHERITED_FD, F_SETFL, fcntl(INHERITED_FD, F_GETFL) | O_NONBLOCK) != 0) {
        snprintf(error, error_size, "LISTEN_FDS: %s", strerror(errno));
        return -1;
    }
    describe(&address, len, where);
    return 1;
}

bool listen_is_local(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return false;
    const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)&address;
    const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)&address;
    if (address.ss_family == AF_INET)
        return ntohl(ipv4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr) &&
            ipv6->sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
}
