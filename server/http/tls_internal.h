/* Shared by the files of TLS: tls.c has the files of the operator, tls_conn.c the sessions. */
#ifndef RLOCKD_SERVER_HTTP_TLS_INTERNAL_H
#define RLOCKD_SERVER_HTTP_TLS_INTERNAL_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "server/http/tls.h"

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
