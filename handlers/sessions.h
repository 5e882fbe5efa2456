/* Shared by the handlers of sessions. */
#ifndef RLOCKD_HANDLERS_SESSIONS_H
#define RLOCKD_HANDLERS_SESSIONS_H

#include "handlers/context.h"
#include "server/base/json_text.h"
#include "storage/session/session.h"

/* A request about one session, while the reply of Redis is awaited. */
struct session_request {
    struct handler_context *context;
    struct http_request *request;
    char session_id[SESSION_ID_SIZE];
    char token[TOKEN_TEXT_SIZE]; /* to be shown, since the server made it; or empty */
};

/* The session of the path, and whether the Session-Token is its. False: refused. */
bool sessions_read_id(struct http_request *request, bool with_token,
                      char session_id[SESSION_ID_SIZE]) __attribute__((warn_unused_result));

/* Adds the session's name to the log line of the request. */
void sessions_log_name(struct http_request *request, const char *name);

/* How often a client had best keep a session alive: three tries before it ends. */
int64_t sessions_keep_alive_ms(int64_t ttl_ms);

/* Begins a body with the members that the answers to a look and a keep-alive share. `caller`
 * sees only leases of locks that it may read; NULL: all leases, for the session itself, or for
 * every client if no API tokens are configured. */
void sessions_write_view(struct json_text *body, const char *session_id,
                         const struct session_view *view, const struct auth_caller *caller);

/* Ends the session and answers the request. */
void sessions_end(struct http_request *request, const char *session_id, bool is_forced);

/* Answers a request that failed with the problem of its outcome. */
void sessions_reply_failure(struct http_request *request, const struct session_view *view);

#endif
