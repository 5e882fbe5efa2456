/* One datagram to NOTIFY_SOCKET. */
#include "server/base/notify.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_SIZE = 512, NS_PER_US = 1000, US_PER_MS = 1000, US_PER_S = 1000000 };

bool notify_is_wanted(void)
{
    const char *path = getenv("NOTIFY_SOCKET");

    return path && (*path == '/' || *path == '@');
}

void notify(const char *format, ...)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[TEXT_SIZE];
    va_list arguments;

    if (!notify_is_wanted())
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = strlen(path);
    int out = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (out >= 0 && len < sizeof(address.sun_path)) {
        memcpy(address.sun_path, path, len);
        if (*path == '@') /* a name without a file */
            address.sun_path[0] = '\0';
        sendto(out, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    }
    if (out >= 0)
        close(out);
}

void notify_reloading(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    notify("RELOADING=1\nMONOTONIC_USEC=%lld",
           (long long)now.tv_sec * US_PER_S + now.tv_nsec / NS_PER_US);
}

/* The number in an environment variable; 0: there is none. */
static long long number_in(const char *variable)
{
    const char *text = getenv(variable);
    char *end;

    if (!text || *text < '0' || *text > '9')
        return 0;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return errno != 0 || *end != '\0' ? 0 : number;
}

int notify_watchdog_ms(void)
{
    long long half_ms = number_in("WATCHDOG_USEC") / 2 / US_PER_MS;
    long long pid = number_in("WATCHDOG_PID");

    if (half_ms <= 0 || !notify_is_wanted() || (pid != 0 && pid != getpid()))
        return -1;
    return half_ms > INT_MAX ? INT_MAX : (int)half_ms;
}
