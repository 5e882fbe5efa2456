/* Simulated eventfds, whose counter nothing reads. */
#include "tests/sim/bells.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "tests/sim/bytes.h"
#include "tests/sim/front.h"

/* Descriptors of these begin here: those of sockets do not come as far. */
enum { FD_FIRST = 1 << 21, BELLS_MAX = 4096 };

struct bell {
    int fd;
    struct thread *thread;
    bool rings;
};

static struct bell *by_fd[BELLS_MAX];
static int fd_count;

struct bell *bell_new(void)
{
    struct bell *bell = zalloc(sizeof(*bell));

    if (fd_count == BELLS_MAX || running_thread == NULL)
        abort();
    bell->thread = running_thread;
    bell->fd = FD_FIRST + fd_count;
    by_fd[fd_count++] = bell;
    return bell;
}

int bell_fd(const struct bell *bell)
{
    return bell->fd;
}

struct bell *bell_of(int fd)
{
    return fd >= FD_FIRST && fd < FD_FIRST + fd_count ? by_fd[fd - FD_FIRST] : NULL;
}

void bell_ring(struct bell *bell)
{
    bell->rings = true;
    thread_poke(bell->thread);
}

void bell_close(struct bell *bell)
{
    by_fd[bell->fd - FD_FIRST] = NULL;
    free(bell);
}

uint32_t bell_events(const struct bell *bell)
{
    return bell->rings ? EPOLLIN : 0;
}

void bell_heard(struct bell *bell)
{
    bell->rings = false;
}
