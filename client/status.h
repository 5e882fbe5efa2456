/* The exit statuses of every subcommand. Those from 64 on are sysexits.h's where it has one,
 * those from 124 on timeout(1)'s and the shell's. */
#ifndef RLOCK_CLIENT_STATUS_H
#define RLOCK_CLIENT_STATUS_H

enum {
    STATUS_USAGE = 64,
    STATUS_UNREACHABLE = 69,
    STATUS_FAULT = 70,
    STATUS_NO_FORK = 71,
    STATUS_BUSY = 75,
    STATUS_REFUSED = 77,
    STATUS_LOST = 79, /* free of any convention */
    STATUS_MAX_TIME = 124,
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128, /* plus the signal's number */
};

#endif
