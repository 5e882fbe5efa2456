/* The server's side of TLS: its certificate, which can be replaced while it runs, and the
 * authority that clients' certificates have to come from. libmicrohttpd does the rest. */
#ifndef RLOCKD_SERVER_TLS_TLS_H
#define RLOCKD_SERVER_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics;

/* For MHD_OPTION_HTTPS_PRIORITIES: TLS 1.2 and 1.3, with forward secrecy and authenticated
 * encryption alone. Diffie-Hellman is that of three curves: others, of which the client would
 * choose one, cost more, finite fields up to a hundred times as much. The first is the one
 * whose key most clients send at once, so that they need not be asked for another. The profile
 * is for clients' certificates: RSA from 2048 bits on. */
#define TLS_PRIORITIES                                                                         \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-DHE-RSA:-GROUP-ALL:"                     \
    "+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:"                                         \
    "-AES-128-CBC:-AES-256-CBC:-AES-128-CCM:-AES-256-CCM:%SERVER_PRECEDENCE:%PROFILE_MEDIUM"

/* Reads the PEM files: a certificate with its chain, its key, and the authorities of client
 * certificates ("": none). The process has one set, because GnuTLS' callback for a certificate
 * does not name a server; call it before there are threads. False after one line in `error`. */
bool tls_start(const char *cert_file, const char *key_file, const char *client_ca_file,
               char *error, size_t error_size) __attribute__((warn_unused_result));
void tls_stop(void);

/* Reads certificate and key again, for connections from now on. False after one line in
 * `error`: then the old certificate and key stay in use. */
bool tls_reload(char *error, size_t error_size) __attribute__((warn_unused_result));

bool tls_is_on(void);
/* For MHD_OPTION_HTTPS_MEM_TRUST: PEM; NULL: clients need no certificate. */
const char *tls_client_authorities(void);
/* For MHD_OPTION_HTTPS_CERT_CALLBACK: a gnutls_certificate_retrieve_function2. */
void *tls_certificate_callback(void);

/* The handshakes of one worker. */
struct tls_gate {
    uint64_t turn;     /* how many have begun */
    unsigned costly;   /* connections with steps of this turn that cost a millisecond or so */
    size_t under_way;  /* handshakes that have begun */
    bool is_holding;   /* further handshakes wait for the next turn */
    unsigned refused;  /* clients' certificates since the last line in the log */
    int64_t logged_ns; /* when that was; clock_ns() */
    struct metrics *metrics;
};

/* A turn of the worker begins: two handshakes may take costly steps in it. Further handshakes
 * get to read nothing until the next turn. */
void tls_gate_open(struct tls_gate *gate);

/* The worker's part of a session. */
struct tls_conn;

/* `session`: a gnutls_session_t before its handshake, whose reads are taken over. NULL: out of
 * memory, and the session is barred. */
struct tls_conn *tls_conn_new(struct tls_gate *gate, void *session, int fd);
/* The session reads nothing, so that its handshake fails: there is no memory for it. */
void tls_conn_bar(void *session);
/* The connection was ended by this server: a handshake fails at its next read, in any turn.
 * NULL is no error. */
void tls_conn_end(struct tls_conn *conn);
/* Has the client ended its side before this server answered its hello? What it has sent may
 * still be unread. NULL: no. */
bool tls_conn_has_left(const struct tls_conn *conn);
/* When the session is not used any more. NULL is no error. */
void tls_conn_free(struct tls_conn *conn);

/* Is the next record of this connection its end (close_notify)? A client may send that and
 * leave the TCP connection open. The record is not taken. */
bool tls_conn_says_goodbye(const struct tls_conn *conn);

#endif
