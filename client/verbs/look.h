/* Questions to the servers, for subcommands that hold no lock, and how answers are printed. */
#ifndef RLOCK_CLIENT_VERBS_LOOK_H
#define RLOCK_CLIENT_VERBS_LOOK_H

#include <jansson.h>
#include <stdint.h>

#include "client/http/http.h"

enum { LOOK_TIME_SIZE = 32, LOOK_HOLDER_SIZE = 600, LOOK_UNKNOWN = -1 };

/* Asks each server in turn, until then (http_outlast()). Returns 0 with an answer, which is to
 * be cleared, or the exit status after a message. A request that is to be sent `once`: or
 * LOOK_UNKNOWN without a message, when it may have been carried out. */
int look_ask(struct http *http, const struct http_request *request, int64_t until,
             struct http_answer *answer) __attribute__((warn_unused_result));

/* The exit status of an answer that refuses, after a message. */
int look_refused(const struct http_answer *answer);

/* All three: as look_ask(), but with the answer's body, which the caller releases. */
int look_until(struct http *http, const struct http_request *request, int64_t until,
               json_t **body) __attribute__((warn_unused_result));

/* For at most --connect-timeout. */
int look(struct http *http, const struct settings *settings, const struct http_request *request,
         json_t **body) __attribute__((warn_unused_result));

/* By GET of a path, which is freed; NULL: no memory. */
int look_get(struct http *http, const struct settings *settings, char *path, json_t **body)
    __attribute__((warn_unused_result));

/* `before`, the name as a segment of a path, `end`; the caller frees it. */
char *look_path(const char *before, const char *name, const char *end);

/* Prints the body as indented JSON. */
void look_print_json(json_t *body);

/* A line of text, in which control characters become '?'. */
void look_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "12 s", "3 min", "5 h", "2 d". */
const char *look_time(int64_t ms, char out[LOOK_TIME_SIZE]);

/* The name of a holder or a waiter, with its session and caller. */
const char *look_holder(json_t *holder, char out[LOOK_HOLDER_SIZE]);

/* A headline, where people look, and a line for each holder of a lock, or "free". */
void look_print_headline(void);
void look_print_lock(json_t *lock);

#endif
