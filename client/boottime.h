/* The clock of every deadline: it runs on while the machine is suspended (clock_gettime(2)). */
#ifndef RLOCK_CLIENT_BOOTTIME_H
#define RLOCK_CLIENT_BOOTTIME_H

#include <stdint.h>
#include <time.h>

/* Milliseconds of CLOCK_BOOTTIME, the same for all processes of a machine. */
static inline int64_t boottime_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A time that never comes. */
#define BOOTTIME_NEVER INT64_MAX

#endif
