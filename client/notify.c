/* One datagram to NOTIFY_SOCKET. */
#include "client/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool notify_is_wanted(void)
{
    const char *path = getenv("NOTIFY_SOCKET");

    return path && (*path == '/' || *path == '@');
}

void notify(const char *format, ...)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[512];
    va_list arguments;

    if (!notify_is_wanted()) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = strlen(path);
    int out = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (out >= 0 && len < sizeof(address.sun_path)) {
        memcpy(address.sun_path, path, len);
        if (*path == '@') { /* a name without a file */
            address.sun_path[0] = '\0';
        }
        sendto(out, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    }
    if (out >= 0) {
        close(out);
    }
}
