/* A server of --url: what its URL says, its addresses, and how it is trusted. */
#ifndef RLOCK_CLIENT_HTTP_PEER_H
#define RLOCK_CLIENT_HTTP_PEER_H

#include <netdb.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/settings.h"

struct peer {
    char *host; /* a name or an address, without brackets */
    int port;
    bool is_tls;
    char *folder;        /* what stands before each path; "" or "/…" */
    char *host_header;   /* RFC 9110, 7.2 */
    char *authorization; /* "Basic …" of the URL's user (RFC 7617), or NULL */
};

/* Reads http[s]://[USER[:PASSWORD]@]HOST[:PORT][/FOLDER]. False: no such URL, or no memory; the
 * peer is then to be cleared all the same. */
bool peer_read(struct peer *peer, const char *url);
void peer_clear(struct peer *peer);

/* A search for the addresses of a host, in a thread of its own, for getaddrinfo() may take as
 * long as name servers like. */
struct lookup;

/* NULL: no memory or no thread. */
struct lookup *lookup_start(const struct peer *peer);

/* Is readable from the end of the search on. */
int lookup_fd(const struct lookup *lookup);

/* The addresses, for freeaddrinfo(); NULL, and a text in *why: none. Only after the end. */
struct addrinfo *lookup_take(struct lookup *lookup, const char **why);

/* Ends the caller's interest, at any time. */
void lookup_drop(struct lookup *lookup);

/* The TLS settings for all servers, from --ca, --cert, --key and --insecure. NULL: `why` has a
 * text. */
SSL_CTX *peer_trust(const struct settings *settings, char *why, size_t size);

/* A session with the peer, whose certificate has to be valid for its host. NULL: no memory. */
SSL *peer_session(const struct peer *peer, SSL_CTX *trust);

/* Why a session failed: the certificate's fault, or OpenSSL's first error. */
const char *peer_session_trouble(const SSL *session, unsigned long error);

#endif
