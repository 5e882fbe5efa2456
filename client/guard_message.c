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
    ssize_t len;

    /* The kernel reports the end of a peer that has left a message unread as a reset, once, and
     * before the peer's own last messages: unix(7). */
    do {
        len = recv(socket, message, sizeof(*message), 0);
    } while (len < 0 && (errno == EINTR || errno == ECONNRESET));
    if (len == (ssize_t)sizeof(*message)) {
        return 1;
    }
    return len < 0 && errno == EAGAIN ? 0 : -1;
}
