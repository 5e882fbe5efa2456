/* Which requests of web pages are served. A browser sends requests for every page that its user
 * opens, also from inside of a network that only its user reaches. CORS (cors.h) decides which
 * pages may read an answer; this file decides whether the request is served at all. */
#ifndef RLOCKD_SERVER_HTTP_ORIGIN_H
#define RLOCKD_SERVER_HTTP_ORIGIN_H

#include <stdbool.h>

/* Texts are borrowed. A name that no foreign DNS server can lead to this server ("DNS
 * rebinding") is an address, `localhost`, `listen_host` or one of `server_names`. */
struct origin_rules {
    const char *cors_origins; /* see cors.h */
    const char *server_names; /* host names with commas between them; empty: none */
    const char *listen_host;  /* a name, an address without brackets, or empty */
    bool is_local;            /* only this machine reaches the front end */
    bool has_tls;
};

/* The headers by which a browser describes a request. NULL: the header was not sent. */
struct origin_headers {
    const char *host, *origin;
    const char *sec_fetch_site, *sec_fetch_dest; /* W3C Fetch Metadata */
};

enum origin_outcome {
    ORIGIN_SERVED,
    ORIGIN_WRONG_HOST, /* Host: not a name of this server */
    ORIGIN_REBINDABLE, /* a page of this server's own, under a name that can be rebound */
    ORIGIN_FOREIGN     /* a page of another origin, which is not in `cors_origins` */
};

/* Is `list` made of host names, without ports, with commas between them? */
bool origin_names_are_valid(const char *list);

/* `opens_page`: the request changes nothing, and its answer is open to everybody: a link on a
 * foreign page may lead the user to it. */
enum origin_outcome origin_check(const struct origin_rules *rules,
                                 const struct origin_headers *headers, bool opens_page);

#endif
