/* LD_PRELOAD for redis-server: the machine's clock is ahead by the seconds of
 * TEST_CLOCK_AHEAD_S, or behind where they are negative. Other clocks, such as CLOCK_MONOTONIC,
 * are as they are. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t ahead_s;

static void __attribute__((constructor)) read_ahead(void)
{
    const char *text = getenv("TEST_CLOCK_AHEAD_S");

    ahead_s = text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);

    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead_s;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec real;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &real);
    *now = (struct timeval){real.tv_sec, real.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *now)
{
    struct timespec real;

    clock_gettime(CLOCK_REALTIME, &real);
    if (now)
        *now = real.tv_sec;
    return real.tv_sec;
}
