/* One HTTP exchange at a time, with libevent, in a loop that also waits for descriptors of
 * others. The connection to a server is kept for the next exchange. */
#ifndef RLOCK_CLIENT_HTTP_TRANSFER_H
#define RLOCK_CLIENT_HTTP_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/settings.h"

struct transfer;

/* Called in every turn of the loop, after something happened, or after TRANSFER_TURN_MS. True
 * ends the exchange or the pause that is under way. */
typedef bool transfer_watch_fn(void *context);
enum { TRANSFER_TURN_MS = 10000 };

struct transfer_header {
    const char *name, *value; /* a value of NULL: no such header */
};

struct transfer_request {
    const char *method;                    /* GET, PUT, POST, PATCH or DELETE */
    const char *path;                      /* below the server's URL */
    const struct transfer_header *headers; /* the last one has no name */
    const char *body;                      /* NULL: none */
    int64_t timeout_ms;
    bool once; /* not sent anew when a kept connection was closed: the server may have it */
};

struct transfer_answer {
    int status;
    int64_t retry_after_s; /* 0: not given */
    char *body;            /* not terminated; the caller frees it; NULL: empty */
    size_t body_len;
};

enum transfer_outcome {
    TRANSFER_DONE,
    TRANSFER_FAILED,
    TRANSFER_NOT_SENT, /* no server has seen the request */
    TRANSFER_INTERRUPTED
};

/* NULL: no memory. `settings` stays the caller's. */
struct transfer *transfer_new(const struct settings *settings);
void transfer_free(struct transfer *transfer);

void transfer_watch(struct transfer *transfer, transfer_watch_fn *watch, void *context);

/* A descriptor that the loop waits for beside the network, in one of TRANSFER_FDS places; -1:
 * none. */
enum { TRANSFER_FDS = 4 };
void transfer_watch_fd(struct transfer *transfer, size_t place, int fd);

/* Asks the server of this URL, at each of its addresses until one can be connected to. An
 * exchange over a kept connection that the server has closed meanwhile begins anew. */
enum transfer_outcome transfer_run(struct transfer *transfer, const char *url,
                                   const struct transfer_request *request,
                                   struct transfer_answer *answer)
    __attribute__((warn_unused_result));

/* Why the last exchange failed, for people. */
const char *transfer_trouble(const struct transfer *transfer);

/* Waits until then (boottime_ms()). False: interrupted. */
bool transfer_pause(struct transfer *transfer, int64_t until)
    __attribute__((warn_unused_result));

#endif
