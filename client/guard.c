/* Starts the guard, and carries messages between rlock and the guard. */
#include "client/guard.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

pid_t guard_start(const struct guard_plan *plan, int *socket)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return -1;
    }
    pid_t guard = fork();
    if (guard == 0) {
        close(ends[0]);
        guard_main(plan, ends[1]);
    }
    int error = errno;
    close(ends[1]);
    if (guard < 0) {
        close(ends[0]);
        errno = error;
        return -1;
    }
    *socket = ends[0];
    return guard;
}

bool guard_send(int socket, const struct guard_message *message)
{
    return send(socket, message, sizeof(*message), MSG_NOSIGNAL) == (ssize_t)sizeof(*message);
}

int guard_receive(int socket, struct guard_message *message)
{
    ssize_t len = recv(socket, message, sizeof(*message), 0);

    if (len == (ssize_t)sizeof(*message)) {
        return 1;
    }
    return len < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}
