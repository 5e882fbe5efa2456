/* The server's side of TLS: its certificate, which can be replaced while it runs, and the
 * authority that clients' certificates have to come from. libmicrohttpd does the rest. */
#ifndef RLOCKD_SERVER_HTTP_TLS_H
#define RLOCKD_SERVER_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>

/* For MHD_OPTION_HTTPS_PRIORITIES: TLS 1.2 and 1.3, with the algorithms that GnuTLS considers
 * secure. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE"

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

/* Is the next record of this connection its end (close_notify)? A client may send that and
 * leave the TCP connection open. Looks at the record from outside: only GnuTLS can read it. */
bool tls_says_goodbye(int fd);

#endif
