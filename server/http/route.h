/* Which operation a request asks for: a table of methods and path patterns. */
#ifndef RLOCKD_SERVER_HTTP_ROUTE_H
#define RLOCKD_SERVER_HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "server/auth/auth.h"

struct http_request;

enum {
    ROUTE_PARAMS = 2,     /* the most that a pattern has */
    ROUTE_ALLOW_SIZE = 64 /* an Allow header: every method that HTTP knows, with commas */
};

/* Whose protocol the answers of a route follow. */
enum route_dialect {
    DIALECT_RLOCKD,
    DIALECT_FLEETLOCK, /* problems have `kind` and `value`, too */
    DIALECT_GIT_LFS    /* a media type of its own; problems have `message`, too */
};

/* `path` is made of literal segments and `{parameter}` segments. `{name}`, the first parameter
 * where it is one, is the name that the caller needs the right `access` to. On a route without
 * a name in its path the caller needs the right to some name, and the handler may know more. */
struct route {
    const char *method, *path;
    enum auth_verb access;
    void (*handle)(struct http_request *request);
    const char *object; /* what `{name}` is the name of, as the log calls it */
    int subject;        /* the value of http_subject(), for a handler of several routes */
    const char *prefix; /* of the first parameter's value, which is this and the parameter: the
                           literal segments of `path` that stand before it. NULL: none */
    enum route_dialect dialect;
    bool is_listing;           /* its answers may be large: only a few are made at a time */
    const char *not_in_quorum; /* why a quorum refuses it; NULL: it does not */
};

/* A part of the raw path, still percent-encoded. */
struct route_param {
    const char *text;
    size_t len;
};

enum route_outcome { ROUTE_FOUND, ROUTE_NOT_FOUND, ROUTE_METHOD_NOT_ALLOWED };

struct route_match {
    size_t index; /* of the route in its table */
    struct route_param params[ROUTE_PARAMS];
    char allow[ROUTE_ALLOW_SIZE]; /* filled for ROUTE_METHOD_NOT_ALLOWED: RFC 9110 §10.2.1 */
};

bool route_has_name(const struct route *route);

/* `path` is the raw path without its query. HEAD is answered by the route of GET. */
enum route_outcome route_find(const struct route *routes, size_t route_count,
                              const char *method, const char *path, struct route_match *match);

#endif
