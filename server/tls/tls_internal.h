/* Shared by the files of TLS to clients. The files of this folder, each above all files that it
 * needs:
 *
 *   tls_conn.c   the handshake and the bytes of a connection
 *   tls.c        the operator's certificate, key and authority
 *
 * server/http/ and server/main.c call this folder by tls.h. It knows server/base/ alone. */
#ifndef RLOCKD_SERVER_TLS_TLS_INTERNAL_H
#define RLOCKD_SERVER_TLS_TLS_INTERNAL_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "server/tls/tls.h"

enum { TLS_CHAIN_MAX = 16 };

/* A certificate with its chain, and its key. A session uses the identity that was current in
 * its handshake. */
struct tls_identity {
    unsigned users; /* sessions, and one for the current identity */
    gnutls_pcert_st chain[TLS_CHAIN_MAX];
    unsigned chain_len;
    gnutls_privkey_t key;
};

/* The current identity, until tls_identity_drop(). Any thread. */
struct tls_identity *tls_identity_take(void);
void tls_identity_drop(struct tls_identity *identity);

#endif
