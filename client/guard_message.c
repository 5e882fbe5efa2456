/* The messages between rlock and its guard. */
#include "client/guard.h"

#include <errno.h>
#include <sys/socket.h>

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
