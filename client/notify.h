/* Tells the service manager how far rlock is: sd_notify(3)'s protocol. */
#ifndef RLOCK_CLIENT_NOTIFY_H
#define RLOCK_CLIENT_NOTIFY_H

#include <stdbool.h>

/* Whether NOTIFY_SOCKET names somebody to tell. */
bool notify_is_wanted(void);

/* Sends the text: lines such as "READY=1". Errors are ignored, as sd_notify(3) advises. */
void notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
