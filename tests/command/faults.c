/* LD_PRELOAD for rlock: what befalls it in the middle of a system call.
 *
 *   RLOCK_TEST_FORK=N:suspend   just before the fork() number N of rlock and its guard the
 *                               machine was suspended: see suspend.c
 *   RLOCK_TEST_FORK=N:kill      just after it the parent of the forking process is killed
 *   RLOCK_TEST_FLOCK=nfs        flock() as of NFS, whose exclusive locks need a descriptor that
 *                               is open for writing: flock(2) */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { SUSPENDED_MS = 70000, LOOK_US = 1000 };

static int forks; /* of this process and of those above it */

/* What COMMAND forks is none of this file's business. */
static int is_due(const char *what)
{
    const char *wanted = getenv("RLOCK_TEST_FORK");
    char text[32];

    snprintf(text, sizeof(text), "%d:%s", forks, what);
    return wanted && strcmp(program_invocation_short_name, "rlock") == 0 &&
           strcmp(wanted, text) == 0;
}

static void suspend(void)
{
    int64_t ms = SUSPENDED_MS;
    int fd = open(getenv("RLOCK_TEST_SUSPENDED_MS"), O_WRONLY | O_CLOEXEC);

    if (pwrite(fd, &ms, sizeof(ms), 0) != sizeof(ms)) {
        abort();
    }
    close(fd);
}

static void kill_parent(void)
{
    pid_t parent = getppid();

    kill(parent, SIGKILL);
    while (getppid() == parent) {
        usleep(LOOK_US);
    }
}

pid_t fork(void)
{
    pid_t (*real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");

    forks++;
    if (is_due("suspend")) {
        suspend();
    }
    pid_t child = real();
    if (child > 0 && is_due("kill")) {
        kill_parent();
    }
    return child;
}

int flock(int fd, int operation)
{
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");

    if (getenv("RLOCK_TEST_FLOCK") && (operation & LOCK_EX) &&
        (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        errno = EBADF;
        return -1;
    }
    return real(fd, operation);
}
