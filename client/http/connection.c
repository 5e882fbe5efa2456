/* libevent's HTTP connection, with TLS where the peer has it. */
#include "client/http/connection.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>

enum {
    HEADERS_MAX = 64 << 10,
    BODY_MAX = 1 << 20, /* the largest answer that is read */
    NEVER_S = 1 << 24,  /* libevent's own time-outs: the caller's are shorter */
};

static void on_close(struct evhttp_connection *http, void *context)
{
    struct connection *connection = context;

    (void)http;
    connection->is_closed = true;
}

static struct bufferevent *make_stream(struct connection *connection, struct event_base *base,
                                       const struct peer *peer, SSL_CTX *trust)
{
    if (!peer->is_tls) {
        return bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    }
    connection->session = peer_session(peer, trust);
    return connection->session ? bufferevent_openssl_socket_new(base, -1, connection->session,
                                                                BUFFEREVENT_SSL_CONNECTING,
                                                                BEV_OPT_CLOSE_ON_FREE)
                               : NULL;
}

bool connection_open(struct connection *connection, struct event_base *base,
                     const struct peer *peer, SSL_CTX *trust, const struct addrinfo *address)
{
    const struct timeval never = {.tv_sec = NEVER_S};
    char host[NI_MAXHOST];

    *connection = (struct connection){0};
    if (getnameinfo(address->ai_addr, address->ai_addrlen, host, sizeof(host), NULL, 0,
                    NI_NUMERICHOST) != 0 ||
        !(connection->stream = make_stream(connection, base, peer, trust))) {
        return false;
    }
    connection->http = evhttp_connection_base_bufferevent_new(base, NULL, connection->stream,
                                                              host, (uint16_t)peer->port);
    if (!connection->http) {
        bufferevent_free(connection->stream);
        return false;
    }
    evhttp_connection_set_timeout_tv(connection->http, &never);
    evhttp_connection_set_max_headers_size(connection->http, HEADERS_MAX);
    evhttp_connection_set_max_body_size(connection->http, BODY_MAX);
    evhttp_connection_set_closecb(connection->http, on_close, connection);
    return true;
}

/* A TLS session says good-bye, or the server would take the end for an attack. */
void connection_drop(struct connection *connection)
{
    if (!connection->http) {
        return;
    }
    if (connection->session && connection->is_connected) {
        SSL_shutdown(connection->session);
    }
    evhttp_connection_set_closecb(connection->http, NULL, NULL);
    evhttp_connection_free(connection->http);
    *connection = (struct connection){0};
}

/* Before libevent's own callback, which loses errno, goes on with the request. */
static void on_connect(struct bufferevent *stream, short what, void *context)
{
    struct connection *connection = context;

    connection->error = errno;
    connection->is_connected = what & BEV_EVENT_CONNECTED;
    bufferevent_setcb(stream, NULL, NULL, connection->after_connect, connection->http);
    connection->after_connect(stream, what, connection->http);
}

void connection_watch(struct connection *connection)
{
    if (!connection->is_connected && !connection->after_connect) {
        bufferevent_getcb(connection->stream, NULL, NULL, &connection->after_connect, NULL);
        bufferevent_setcb(connection->stream, NULL, NULL, on_connect, connection);
    }
}

const char *connection_trouble(const struct connection *connection)
{
    return connection->session
               ? peer_session_trouble(connection->session,
                                      bufferevent_get_openssl_error(connection->stream))
               : NULL;
}
