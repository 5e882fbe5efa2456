/* One question to the servers, for subcommands that hold no lock. */
#ifndef RLOCK_CLIENT_LOOK_H
#define RLOCK_CLIENT_LOOK_H

#include <jansson.h>

#include "client/http.h"

/* Asks each server in turn, for at most --connect-timeout. Returns 0 with the answer's body,
 * which the caller releases, or the exit status after a message. */
int look(struct http *http, const struct settings *settings, const struct http_request *request,
         json_t **body) __attribute__((warn_unused_result));

/* The path of the lock below /v1/locks/, with `end` after it; the caller frees it. */
char *look_path(const char *name, const char *end);

/* Prints the body as indented JSON. */
void look_print_json(json_t *body);

/* One line for each holder of a lock, or "free". */
void look_print_lock(json_t *lock);

#endif
