/* Requests to the servers of --url, one at a time. */
#ifndef RLOCK_CLIENT_HTTP_HTTP_H
#define RLOCK_CLIENT_HTTP_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/settings.h"

struct http;

/* Called in every turn of the loop, after something happened on a watched descriptor or on the
 * network, and every 10 s. True ends the request or the pause that is under way. */
typedef bool http_watch_fn(void *context);

struct http_request {
    const char *method, *path;                          /* path: below the server's URL */
    const char *session_token, *lease_token, *if_match; /* NULL: no such header */
    const char *idempotency_key; /* makes it repeatable for HTTP_KEY_MS */
    const char *prefer;
    json_t *body;       /* NULL: none; stays the caller's */
    int64_t timeout_ms; /* of one attempt */
    const char *wanted; /* a member that rlockd's answer has when it is no refusal; or NULL */
    bool once;  /* HTTP_UNKNOWN after the first attempt that may have been carried out */
    bool waits; /* 429 may say that too many wait already: the caller repeats it */
};

struct http_answer {
    long status;
    json_t *body;                 /* an object, or NULL: only with a status of an error */
    int64_t sent_at, received_at; /* boottime_ms() */
    int64_t retry_after_ms;       /* 0: not given */
    bool is_unknown;              /* whether it was carried out; also without an answer */
};

/* From the first attempt that may have been carried out to the end of the last one. A server
 * remembers a key for its --retry-window-ms, a minute, and does not tell how long that is; what
 * was sent may still be on its way when its attempt has ended. */
enum { HTTP_KEY_MS = 50000 };

/* HTTP_UNKNOWN: it may have been carried out, and must not be sent again. */
enum http_outcome { HTTP_ANSWERED, HTTP_NO_ANSWER, HTTP_UNKNOWN, HTTP_INTERRUPTED };

/* NULL: a message was written; *status is then the exit status. */
struct http *http_new(const struct settings *settings, int *status);
void http_free(struct http *http);

void http_watch(struct http *http, http_watch_fn *watch, void *context);

/* Descriptors that the loop waits for beside the network; -1: none. */
enum http_watched { WATCH_SIGNALS, WATCH_GUARD, WATCH_PID, WATCH_INPUT, WATCH_COUNT };
void http_watch_fd(struct http *http, enum http_watched which, int fd);

/* One attempt at the present server. After HTTP_ANSWERED `answer` is to be cleared. An
 * answer that does not come from rlockd is HTTP_NO_ANSWER: one that is no JSON object, a
 * refusal that is none of rlockd's problems, a 2xx without what was `wanted`. */
enum http_outcome http_ask(struct http *http, const struct http_request *request,
                           struct http_answer *answer) __attribute__((warn_unused_result));
void http_answer_clear(struct http_answer *answer);

/* Takes the next server of the list. True when all have had their turn: time to pause. */
bool http_next_server(struct http *http);

/* Waits until then (boottime_ms()). False: interrupted. */
bool http_pause(struct http *http, int64_t until) __attribute__((warn_unused_result));

/* Repeats a request over all servers until one answers other than 5xx, or until then. At least
 * each server is asked once, unless the request may not be repeated any more (HTTP_UNKNOWN).
 * 429, unless the request waits, is repeated at the same server when that has asked for it,
 * once also if it is too late then: with one request a second nothing that takes two requests
 * would ever succeed at once. */
enum http_outcome http_insist(struct http *http, const struct http_request *request,
                              struct http_answer *answer, int64_t until)
    __attribute__((warn_unused_result));

/* The same for a request that waits, until then: a wait with an end outlasts servers that are
 * away; one without (BOOTTIME_NEVER) ends when --connect-timeout has passed since the last
 * answer of any server, for servers in trouble, which answer 503, can be reached. */
enum http_outcome http_outlast(struct http *http, const struct http_request *request,
                               struct http_answer *answer, int64_t until)
    __attribute__((warn_unused_result));

/* Why the last attempt had no answer, for people. */
const char *http_trouble(const struct http *http);

/* One segment of a path, percent-encoded; the caller frees it. NULL: no memory. */
char *http_segment(const char *text);

#endif
