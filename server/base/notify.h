/* Tells the service manager how far a program is: sd_notify(3)'s protocol, without libsystemd.
 * The server and the client use it. */
#ifndef RLOCKD_SERVER_BASE_NOTIFY_H
#define RLOCKD_SERVER_BASE_NOTIFY_H

#include <stdbool.h>

/* Whether NOTIFY_SOCKET names a service manager. */
bool notify_is_wanted(void);

/* Sends the text: lines such as "READY=1". From any thread. Errors are ignored, as sd_notify(3)
 * advises. */
void notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "RELOADING=1": to be followed by "READY=1". */
void notify_reloading(void);

/* How often the service manager wants to see "WATCHDOG=1", in ms: half the time of
 * WATCHDOG_USEC, as sd_watchdog_enabled(3) advises. -1: never. */
int notify_watchdog_ms(void);

#endif
