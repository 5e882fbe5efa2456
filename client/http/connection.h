/* The connection to one address of a server, for one exchange after the other. */
#ifndef RLOCK_CLIENT_HTTP_CONNECTION_H
#define RLOCK_CLIENT_HTTP_CONNECTION_H

#include <event2/bufferevent.h>
#include <event2/http.h>
#include <stdbool.h>

#include "client/http/peer.h"

struct connection {
    struct evhttp_connection *http; /* NULL: there is none */
    struct bufferevent *stream;     /* of `http` */
    SSL *session;                   /* of the stream, or NULL */
    bufferevent_event_cb after_connect;
    bool is_connected;
    bool is_kept;   /* has served an exchange, and may serve another one */
    bool is_closed; /* by the server */
    int error;      /* errno when it could not be connected */
};

/* False: no memory. The struct must not move as long as there is a connection. */
bool connection_open(struct connection *connection, struct event_base *base,
                     const struct peer *peer, SSL_CTX *trust, const struct addrinfo *address);

/* Hangs up, also in the midst of an exchange, whose callback is then not called. */
void connection_drop(struct connection *connection);

/* To be called after a first request was made, which is what connects. */
void connection_watch(struct connection *connection);

/* Why the TLS session of a failed connection failed; NULL: TLS was not the cause. */
const char *connection_trouble(const struct connection *connection);

#endif
