/* The clock of rlockd's deadlines: CLOCK_BOOTTIME, which cannot be set and which goes on while
 * the machine sleeps, so that a lease never seems longer than it was. */
#ifndef RLOCKD_SERVER_BASE_CLOCK_H
#define RLOCKD_SERVER_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_US 1000LL
#define CLOCK_NS_PER_MS 1000000LL
#define CLOCK_NS_PER_S 1000000000LL
/* A time in fewer ms than these is a time of clock_ns(), too. */
#define CLOCK_MS_MAX (INT64_MAX / CLOCK_NS_PER_MS / 2)

/* Nanoseconds since boot. */
static inline int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec;
}

#endif
