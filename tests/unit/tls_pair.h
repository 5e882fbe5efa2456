/* A client of GnuTLS and a session of server/tls, in one thread. */
#ifndef RLOCKD_TESTS_UNIT_TLS_PAIR_H
#define RLOCKD_TESTS_UNIT_TLS_PAIR_H

#include <gnutls/gnutls.h>
#include <stdbool.h>

#include "server/base/metrics.h"
#include "server/tls/tls.h"

enum { TLS_PAIR_TURNS_MAX = 50 };

struct tls_pair {
    int fds[2]; /* the client's, and the server's */
    gnutls_session_t client, server;
    struct tls_conn *conn;
    bool client_is_done, server_is_done;
};

extern struct metrics tls_pair_metrics;
/* Of the server, of clients, and of clients that have a certificate. */
extern gnutls_certificate_credentials_t tls_pair_server, tls_pair_client, tls_pair_certified;

/* For groups of tests. */
int tls_pair_set_up(void **state);
int tls_pair_tear_down(void **state);
/* tls_start(); "": clients need no certificate. */
void tls_pair_start(const char *client_authorities);

/* `flags`: of gnutls_init(), for the client; `priorities`: the client's. */
struct tls_pair tls_pair_open_with(struct tls_gate *gate, unsigned flags,
                                   const char *priorities);
struct tls_pair tls_pair_open(struct tls_gate *gate, const char *priorities);
void tls_pair_close(struct tls_pair *pair);

/* Goes on with a handshake, which must not fail, as far as it can. */
void tls_pair_go_on(gnutls_session_t session, bool *is_done);
/* Both sides go on as far as they can. True: both are done. */
bool tls_pair_shake_hands(struct tls_pair *pair);
/* Opens the gate as often as the handshake needs. */
void tls_pair_shake_hands_alone(struct tls_gate *gate, struct tls_pair *pair);
/* How many bytes are there to read? */
int tls_pair_unread(int fd);

#endif
