/* Standard streams that lead to /dev/null. */
#include "client/streams.h"

#include <fcntl.h>
#include <unistd.h>

void streams_open(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        close(fd);
    }
}

void streams_leave(int first, int last)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = first; null >= 0 && fd <= last; fd++) {
        dup2(null, fd);
    }
    if (null > last) {
        close(null);
    }
}
