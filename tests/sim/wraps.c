/* The calls of the product that the linker leads here, by its --wrap: sockets, eventfds, the
 * clock, the source of random bytes, and mutexes, at which a turn may stop half way. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include "tests/sim/bells.h"
#include "tests/sim/sockets.h"
#include "tests/sim/wire.h"

int __real_socket(int domain, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *address, socklen_t len);
ssize_t __real_read(int fd, void *out, size_t size);
ssize_t __real_write(int fd, const void *text, size_t len);
int __real_close(int fd);
int __real_fcntl(int fd, int command, ...);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
ssize_t __wrap_read(int fd, void *out, size_t size);
ssize_t __wrap_write(int fd, const void *text, size_t len);
int __wrap_close(int fd);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags);

int __wrap_socket(int domain, int type, int protocol)
{
    if (running_front == NULL)
        return __real_socket(domain, type, protocol);
    return wire_new()->fd;
}

static struct server *server_of(const struct sockaddr *address)
{
    struct sockaddr_in internet;

    if (address->sa_family != AF_INET)
        return server_at(0);
    memcpy(&internet, address, sizeof(internet));
    return server_at(ntohs(internet.sin_port));
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    struct wire *wire = wire_of(fd);

    if (wire == NULL)
        return __real_connect(fd, address, len);
    wire_connect(wire, server_of(address));
    errno = EINPROGRESS;
    return -1;
}

/* Of one socket, without waiting. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (count != 1 || timeout_ms != 0 || wire_of(fds->fd) == NULL)
        return __real_poll(fds, count, timeout_ms);
    fds->revents = (short)(socket_events(fds->fd) &
                           ((uint32_t)fds->events | EPOLLERR | EPOLLHUP));
    return fds->revents != 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    return wire_of(fd) != NULL ? 0 : __real_setsockopt(fd, level, name, value, len);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    const struct wire *wire = wire_of(fd);

    if (wire == NULL)
        return __real_getsockopt(fd, level, name, value, len);
    *(int *)value = wire->state == WIRE_REFUSED ? ECONNREFUSED
                    : wire->state == WIRE_RESET ? ECONNRESET
                                                : 0;
    return 0;
}

int __wrap_fcntl(int fd, int command, ...)
{
    va_list args;

    if (wire_of(fd) != NULL)
        return 0;
    va_start(args, command);
    long arg = va_arg(args, long);
    va_end(args);
    return __real_fcntl(fd, command, arg);
}

ssize_t __wrap_read(int fd, void *out, size_t size)
{
    struct wire *wire = wire_of(fd);

    if (wire == NULL)
        return __real_read(fd, out, size);
    if (wire->state == WIRE_RESET || wire->state == WIRE_REFUSED) {
        errno = ECONNRESET;
        return -1;
    }
    if (wire->inbox.len == 0 && wire->state == WIRE_ENDED)
        return 0;
    if (wire->inbox.len == 0) {
        errno = EAGAIN;
        return -1;
    }
    size_t len = wire->inbox.len < size ? wire->inbox.len : size;
    memcpy(out, wire->inbox.text, len);
    buffer_drop(&wire->inbox, len);
    return (ssize_t)len;
}

ssize_t __wrap_write(int fd, const void *text, size_t len)
{
    struct wire *wire = wire_of(fd);

    if (bell_of(fd) != NULL) {
        bell_ring(bell_of(fd));
        thread_may_yield();
        return (ssize_t)len;
    }
    if (wire == NULL)
        return __real_write(fd, text, len);
    if (wire->state != WIRE_UP && wire->state != WIRE_ENDED) {
        errno = EPIPE;
        return -1;
    }
    if (wire->client != NULL)
        wire_send(&wire->to_redis, SIGN_BYTES, text, len);
    return (ssize_t)len;
}

int __wrap_close(int fd)
{
    struct wire *wire = wire_of(fd);

    if (bell_of(fd) != NULL) {
        bell_close(bell_of(fd));
        return 0;
    }
    if (wire == NULL)
        return __real_close(fd);
    wire_close(wire);
    return 0;
}

int __wrap_eventfd(unsigned count, int flags)
{
    (void)count;
    (void)flags;
    return bell_fd(bell_new());
}

/* No thread stops while it holds a mutex, so no other one has to wait for that. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    thread_may_yield();
    if (running_thread != NULL)
        running_thread->mutexes++;
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int status = __real_pthread_mutex_unlock(mutex);

    if (running_thread != NULL)
        running_thread->mutexes--;
    thread_may_yield();
    return status;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    int64_t ns = running_front != NULL ? front_clock_ns(running_front) : now_ns();

    (void)clock;
    if (running_thread != NULL)
        ns += running_thread->spent_ns;
    time->tv_sec = ns / CLOCK_NS_PER_S;
    time->tv_nsec = ns % CLOCK_NS_PER_S;
    return 0;
}

ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags)
{
    (void)flags;
    if (running_front == NULL)
        abort(); /* what is chance outside of the front ends comes from the seed by name */
    chance_bytes(&running_front->chance, out, size);
    return (ssize_t)size;
}
