/* LD_PRELOAD for rlock: the machine was suspended. CLOCK_BOOTTIME, and no other clock, is ahead
 * by the milliseconds in the file of RLOCK_TEST_SUSPENDED_MS, which a test writes while rlock
 * runs. As after a real suspend (timerfd_create(2)) a timer of CLOCK_BOOTTIME whose absolute
 * time has passed meanwhile expires at once. */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { NO_TIMER = -1, LOOK_AGAIN_MS = 20 };

static const volatile int64_t *suspended_ms;
static int timer = NO_TIMER; /* the process has one timer of CLOCK_BOOTTIME at most */
static struct itimerspec timer_value;
static int64_t timer_shift_ms;

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void __attribute__((constructor)) map_file(void)
{
    const char *path = getenv("RLOCK_TEST_SUSPENDED_MS");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        suspended_ms = mmap(NULL, sizeof(*suspended_ms), PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
    }
}

static int64_t shift_ms(void)
{
    return suspended_ms ? *suspended_ms : 0;
}

static void add_ms(struct timespec *time, int64_t ms)
{
    int64_t ns = time->tv_nsec + ms % 1000 * 1000000;

    time->tv_sec += ms / 1000 + (ns < 0 ? -1 : ns / 1000000000);
    time->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);

    real = real ? real : (int (*)(clockid_t, struct timespec *))next("clock_gettime");
    int result = real(clock, time);
    if (result == 0 && clock == CLOCK_BOOTTIME) {
        add_ms(time, shift_ms());
    }
    return result;
}

int timerfd_create(clockid_t clock, int flags)
{
    int (*real)(clockid_t, int) = (int (*)(clockid_t, int))next("timerfd_create");
    int fd = real(clock, flags);

    timer = clock == CLOCK_BOOTTIME ? fd : timer;
    return fd;
}

static int set_timer(int flags, struct itimerspec value, struct itimerspec *old)
{
    int (*real)(int, int, const struct itimerspec *, struct itimerspec *) = (int (*)(
        int, int, const struct itimerspec *, struct itimerspec *))next("timerfd_settime");

    timer_shift_ms = shift_ms();
    if (value.it_value.tv_sec > 0) {
        add_ms(&value.it_value, -timer_shift_ms);
        value.it_value.tv_sec = value.it_value.tv_sec < 1 ? 1 : value.it_value.tv_sec;
    }
    return real(timer, flags, &value, old);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    if (fd != timer) {
        int (*real)(int, int, const struct itimerspec *, struct itimerspec *) = (int (*)(
            int, int, const struct itimerspec *, struct itimerspec *))next("timerfd_settime");
        return real(fd, flags, value, old);
    }
    timer_value = *value;
    return set_timer(flags, timer_value, old);
}

/* The kernel looks at the timers when the machine wakes up; here the wait does. */
int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int (*real)(struct pollfd *, nfds_t,
                int) = (int (*)(struct pollfd *, nfds_t, int))next("poll");
    int ready;

    if (timer == NO_TIMER || timeout_ms >= 0) {
        return real(fds, count, timeout_ms);
    }
    while ((ready = real(fds, count, LOOK_AGAIN_MS)) == 0) {
        if (shift_ms() != timer_shift_ms) {
            set_timer(TFD_TIMER_ABSTIME, timer_value, NULL);
        }
    }
    return ready;
}
