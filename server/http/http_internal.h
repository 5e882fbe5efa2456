/* Shared by the files http*.c. The files of this folder, each above all files that it needs:
 *
 *   http.c               starts the server, and takes libmicrohttpd's calls for a request
 *   http_receive.c       from the headers of a request to its handler; answers refusals
 *   http_life.c          opens and drains the server, its connections' beginning, its end
 *   http_turn.c          runs libmicrohttpd in each turn of the loop
 *   http_listings.c      the line of listings that wait for their turn
 *   request.c, request_headers.c   what handlers read: fields, tokens
 *   http_reply.c         answers that are no problems
 *   problem.c            the table of problems, and the answers made from it
 *   http_log.c           the log line and the metrics of a request
 *   http_request.c       what handlers ask of a request, and its answer
 *   http_stage.c         answered, dropped, suspended, hung up: where a request stands
 *   http_memory.c        the memory of requests
 *   http_large.c         the account of listings and large answers
 *   http_client.c, proxies.c   the address of a request's client
 *   http_headers.c       checks the headers
 *   authorize.c, origin.c, cors.c   the caller's rights, and which web page asks
 *   http_refusal.c       what a check finds wrong
 *   route.c              the search in the table of routes
 *   http_crowd.c, http_conn.c, addresses.c   connections, and which of them are cut off
 *   budget.c             how much of a turn the requests may take
 *   listen.c             the listening sockets
 *
 * handlers/ and server/{main,worker}.c call this folder by its other headers. This folder knows
 * server/auth/, server/tls/ and server/base/ alone. */
#ifndef RLOCKD_SERVER_HTTP_HTTP_INTERNAL_H
#define RLOCKD_SERVER_HTTP_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <stdarg.h>
#include <uthash.h>

#include "server/base/pool.h"
#include "server/base/token.h"
#include "server/http/budget.h"
#include "server/http/http.h"
#include "server/http/http_conn.h"
#include "server/http/problem.h"
#include "server/tls/tls.h"

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
enum { HTTP_REQUEST_BLOCK = 1344 };

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

/* Bytes of any address. */
enum { HTTP_CLIENT_SIZE = 46 };

/* Large answers of a caller, on a worker, that are not sent yet. */
enum { HTTP_ANSWERS_MAX = 8 };

/* The share of one caller: of an API token, or without API tokens of a client address. */
struct http_share {
    UT_hash_handle hh;
    size_t requests;       /* that point here */
    size_t waiting;        /* listings */
    size_t answers, bytes; /* not sent yet */
    bool has_listing;      /* under way */
    char key[];
};

struct http_turn;

/* The listings and large answers of a worker. */
struct http_large {
    struct loop *loop;
    struct http_share *shares; /* uthash: of callers that have any */
    struct http_turn *waiting; /* utlist, oldest first: listings that wait for their turn */
    struct timer go_on;        /* when they go on; fires in http_listings.c */
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

/* Why a request is refused, until http_receive.c answers it. */
struct http_refusal {
    enum problem problem;
    const char *challenge; /* the value of WWW-Authenticate; NULL: no such header */
    bool asks_basic;       /* one more challenge: for Basic */
    const char *verb;      /* a member of the problem; NULL: no such member */
    char detail[256];      /* longer than any: no text of the client is in it */
};

/* http_stage.c, which also has http_drop() */
void http_set_stage(struct http_request *request, enum http_stage stage);
/* The request has its answer in `reply`, or its client has gone. */
void http_answered(struct http_request *request);
/* libmicrohttpd lets go of the request: ends it, or tells its handler that the client has gone.
 * `delivered`: the whole answer went to the kernel. */
void http_let_go(struct http_request *request, bool delivered);
/* Suspends the connection and watches it for a hang-up. */
void http_park(struct http_request *request);

/* http_life.c */
/* For MHD_OPTION_NOTIFY_CONNECTION. */
void http_on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                        enum MHD_ConnectionNotificationCode code);
/* Of the timer `sweep`; arms it again. */
void http_sweep(void *arg);

/* http_turn.c */
/* The daemon has been started: the loop runs it from its next turn on. */
void http_turns_init(struct http_server *server);

/* http_memory.c, which also has http_memory() */
void http_pools_init(struct http_server *server);
void http_pools_release(struct http_server *server);
/* `uri` is copied. NULL: out of memory. */
struct http_request *http_request_new(struct http_server *server, const char *uri);
/* Of a request that is DROPPED. */
void http_request_free(struct http_request *request);
/* Does nothing to a static text. */
void http_text_free(struct http_server *server, const char *text, enum http_text_owner owner);

/* http_request.c */
#define HTTP_GIT_LFS_JSON "application/vnd.git-lfs+json"
/* Answers the request. Takes over `text`, unless it is static. */
void http_answer(struct http_request *request, int status, const char *content_type,
                 const char *text, size_t len, enum http_text_owner owner);

/* http_reply.c */
/* Refuses the request: its caller has `limit` listings or large answers already. */
void http_refuse_large(struct http_request *request, int limit, const char *detail);
/* The same, of large answers. */
void http_refuse_answer(struct http_request *request);
/* The server stops: nothing was done. */
void http_refuse_stopping(struct http_request *request);

/* http_log.c */
/* `delivered`: the whole answer went to the kernel; otherwise the client had gone. */
void http_log_request(struct http_request *request, bool delivered);
/* For MHD_OPTION_EXTERNAL_LOGGER. */
void http_log_library(void *arg, const char *format, va_list args);

/* http_client.c */
/* Empty: the address is not known. */
void http_client_address(const struct http_request *request, char client[HTTP_CLIENT_SIZE]);
/* Of an IPv6 address the first 64 bits: the rest is the client's to choose. */
void http_client_network(const struct http_request *request, char client[HTTP_CLIENT_SIZE]);

/* http_large.c, which also has http_may_answer() */
/* The share of the request's caller. NULL: the client has gone, and its address is not known.
 */
struct http_share *http_large_share(struct http_request *request);
/* Whether the caller may get no more large answers now. */
bool http_large_is_full(const struct http_large *large, const struct http_share *share);
/* The request is answered with so many bytes: its listing is over. */
void http_large_count(struct http_request *request, size_t len);
/* Before the request is freed. */
void http_large_end(struct http_request *request);
/* Gives memory back to the system now and then. */
void http_large_trim(struct http_large *large, int64_t now_ns);

/* http_listings.c */
void http_listings_init(struct http_large *large, struct loop *loop);
/* Refuses the listings that wait, for the server stops. */
void http_listings_refuse(struct http_large *large);
/* After all requests. */
void http_listings_release(struct http_large *large);
/* Calls the handler, now or when another listing of the caller is answered; or refuses the
 * request, if too many listings or large answers of the caller are under way. */
void http_begin_listing(struct http_request *request,
                        void (*handle)(struct http_request *request));

/* http_refusal.c */
/* `detail` is a printf format for one sentence to the caller. Always false. */
bool http_refusal_set(struct http_refusal *refusal, enum problem problem, const char *detail,
                      ...) __attribute__((format(printf, 3, 4)));
/* The caller lacks the right `verb`. Always false. */
bool http_refusal_forbid(struct http_refusal *refusal, enum auth_verb verb, const char *detail);
/* Of a request without a user name, which Basic brings. */
void http_refusal_ask_user(const struct http_request *request, struct http_refusal *refusal,
                           const char *detail);

/* authorize.c */
/* False: a web page has sent the request that may not, or the request names another host. */
bool http_check_origin(const struct http_request *request, const struct route *route,
                       struct http_refusal *refusal);
/* False: the request's API token is missing, unknown or expired, or its caller sends too many
 * requests a second. */
bool http_authenticate(struct http_request *request, const struct route *route,
                       struct http_refusal *refusal);
/* False: the caller has no right to this. */
bool http_authorize(const struct http_request *request, const struct route *route,
                    struct http_refusal *refusal);
/* False: the caller has as many waiting requests as it may. */
bool http_begin_wait(struct http_request *request);
void http_end_wait(struct http_request *request);

/* http_headers.c */
/* Call it when the request line has arrived, and before any other part of the request. */
void http_skip_cookies(struct MHD_Connection *mhd);
/* False: the headers are refused. */
bool http_take_headers(struct http_request *request, const char *version,
                       struct http_refusal *refusal);

/* http_receive.c, which also has http_forbid() */
/* The headers have arrived. False: they were refused, and the request is answered. */
bool http_receive_headers(struct http_request *request, const char *version);
/* Takes `*len` bytes of the body and sets it to 0. False: the connection must be closed. */
bool http_take_body(struct http_request *request, const char *data, size_t *len);
/* A whole request is there: hands it to its handler, or answers it. */
void http_dispatch(struct http_request *request);

#endif
