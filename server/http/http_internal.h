/* What the files of the HTTP module share: http.c speaks to libmicrohttpd, http_request.c is
 * what handlers see of a request. */
#ifndef RLOCKD_SERVER_HTTP_HTTP_INTERNAL_H
#define RLOCKD_SERVER_HTTP_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <stdarg.h>

#include "server/base/pool.h"
#include "server/base/token.h"
#include "server/http/budget.h"
#include "server/http/http.h"
#include "server/http/http_conn.h"
#include "server/http/tls.h"

enum http_stage {
    HTTP_STAGE_HEADERS, /* the headers are about to come */
    HTTP_STAGE_BODY,
    HTTP_STAGE_ARRIVED,  /* the whole request is there, and no handler has it yet */
    HTTP_STAGE_HANDLED,  /* with a handler */
    HTTP_STAGE_ANSWERED, /* http_reply…() was called */
    HTTP_STAGE_QUEUED,   /* the answer was given to libmicrohttpd */
    HTTP_STAGE_DROPPED   /* http_drop() was called, or the client has gone before the reply */
};

/* A header of an answer beyond its Content-Type. Most answers have none. */
struct http_reply_header {
    struct http_reply_header *next;
    const char *name;
    char value[];
};

/* Who owns the text of an answer, which stays until libmicrohttpd has let go of the request. */
enum http_text_owner { HTTP_TEXT_HEAP, HTTP_TEXT_POOL, HTTP_TEXT_STATIC };

struct http_reply {
    const char *content_type;
    const char *text;
    enum http_text_owner text_owner;
    size_t len;
    struct http_reply_header *headers; /* in http_memory(); in the order of the answer */
};

/* Of a request with a short path and the memory that a handler for a lease asks for. It stays
 * with every waiting request, so it is small. */
enum { HTTP_REQUEST_BLOCK = 1536 };

/* A member of a request's log line: of a text the text, else JSON. */
struct http_log_member {
    struct http_log_member *next;
    const char *name;
    bool is_text;
    char value[];
};

struct http_memory; /* memory that did not fit into the request's block */

struct http_request {
    struct http_server *server;
    struct http_conn *conn;
    struct MHD_Connection *mhd; /* NULL once libmicrohttpd has let go of the request */
    enum http_stage stage;
    bool close_after, suspend_wanted, suspended, gone_reported;
    bool hung_up;    /* while it waited: it is not watched again */
    bool is_waiting; /* it counts among its caller's waiters */
    int status;      /* answered with */
    int64_t received_ns;
    size_t route;     /* route_count: none */
    bool is_listing;  /* and not answered yet */
    size_t large_len; /* bytes of a large answer that is not read yet; 0: no large answer */
    struct http_share *share; /* of its caller; NULL: not asked for */
    struct loop_watch hang_up;
    const char *headers[HTTP_HEADER_COUNT];
    const char *method;     /* libmicrohttpd's; gone with the connection */
    const char *target_end; /* of the raw target in libmicrohttpd's buffer; the same */
    char *params[ROUTE_PARAMS];
    char *query;
    char *body;
    size_t body_len, body_size;
    /* The set of API tokens that `caller` points into; NULL: no API tokens. */
    struct auth_snapshot *auth;
    const struct auth_caller *caller;
    struct http_reply reply;
    void (*gone)(void *arg);
    void (*end)(void *arg, bool delivered);
    void *arg;
    struct http_log_member *log_members; /* in http_memory(); in the order of the line */
    int64_t waits_since_ns;              /* 0: it has not waited */
    char *uri;                           /* path and query, cut and decoded in place */
    struct http_memory *more_memory;
    size_t room_used;
    max_align_t room[]; /* for `uri` and http_memory() */
};

struct http_share;
struct http_turn;

/* The listings and large answers of a worker: http_large.c. */
struct http_large {
    struct loop *loop;
    struct http_share *shares; /* uthash: of callers that have any */
    struct http_turn *waiting; /* utlist, oldest first: listings that wait for their turn */
    struct timer go_on;        /* for them */
    size_t listings;           /* under way */
    size_t answers, bytes;     /* not sent yet */
    bool trim_wanted;          /* memory was freed that malloc() keeps */
    int64_t trimmed_ns;
};

struct http_server {
    struct http_options options;
    struct MHD_Daemon *daemon;
    /* libmicrohttpd's own epoll descriptor, nested in that of the loop. */
    struct loop_watch epoll;
    struct loop_hook turn;
    struct timer sweep, tick;
    struct http_conns conns;
    struct tls_gate tls_gate;
    struct pool requests, texts;
    struct http_large large;
    struct budget budget;
    size_t busy;          /* requests in ARRIVED, HANDLED, ANSWERED or QUEUED */
    size_t not_suspended; /* requests under way whose connection is not suspended */
    bool is_open, readable, run_wanted, draining, stopping;
};

/* http.c */
void http_set_stage(struct http_request *request, enum http_stage stage);
/* Called by http_request.c when a request was answered. */
void http_answered(struct http_request *request);

/* http_life.c */
/* For MHD_OPTION_NOTIFY_CONNECTION. */
void http_on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                        enum MHD_ConnectionNotificationCode code);
/* Of the timer `sweep`; arms it again. */
void http_sweep(void *arg);

/* http_turn.c */
/* The daemon has been started: the loop runs it from its next turn on. */
void http_turns_init(struct http_server *server);

/* http_request.c */
void http_pools_init(struct http_server *server);
void http_pools_release(struct http_server *server);
/* `uri` is copied. NULL: out of memory. */
struct http_request *http_request_new(struct http_server *server, const char *uri);
void http_request_free(struct http_request *request);

/* http_log.c */
/* `delivered`: the whole answer went to the kernel; otherwise the client had gone. */
void http_log_request(struct http_request *request, bool delivered);
/* For MHD_OPTION_EXTERNAL_LOGGER. */
void http_log_library(void *arg, const char *format, va_list args);

/* The client's address, of IPv6 its first 64 bits: the rest is the client's to choose. */
enum { HTTP_CLIENT_SIZE = 46 };
void http_client_network(const struct http_request *request, char client[HTTP_CLIENT_SIZE]);

/* http_large.c */
void http_large_init(struct http_large *large, struct loop *loop);
/* After all requests. */
void http_large_release(struct http_large *large);
/* Calls the handler, now or when another listing of the caller is answered; or refuses the
 * request, if too many listings or large answers of the caller are under way. */
void http_large_begin_listing(struct http_request *request,
                              void (*handle)(struct http_request *request));
/* The request is about to be answered with so many bytes. False: with
 * http_large_refuse_answer() instead. */
bool http_large_may_answer(struct http_request *request, size_t len);
void http_large_refuse_answer(struct http_request *request);
/* Before the request is freed. */
void http_large_end(struct http_request *request);
/* Gives memory back to the system now and then. */
void http_large_trim(struct http_large *large, int64_t now_ns);

/* authorize.c */
/* False: a web page has sent the request that may not, or the request names another host, and
 * the request is answered. */
bool http_check_origin(struct http_request *request, const struct route *route);
/* False: the request was answered, for its API token is missing, unknown or expired, or its
 * caller sends too many requests a second. */
bool http_authenticate(struct http_request *request, const struct route *route);
/* False: the caller has no right to this, and the request is answered. */
bool http_authorize(struct http_request *request, const struct route *route);
/* False: the caller has as many waiting requests as it may. */
bool http_begin_wait(struct http_request *request);
void http_end_wait(struct http_request *request);

/* http_headers.c */
/* Call it when the request line has arrived, and before any other part of the request. */
void http_skip_cookies(struct MHD_Connection *mhd);
/* False: the headers were refused, and the request is answered. */
bool http_take_headers(struct http_request *request, const char *version);

/* http_receive.c */
/* Takes `*len` bytes of the body and sets it to 0. False: the connection must be closed. */
bool http_take_body(struct http_request *request, const char *data, size_t *len);
/* A whole request is there: hands it to its handler, or answers it. */
void http_dispatch(struct http_request *request);

#endif
