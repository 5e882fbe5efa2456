/* TLS to Redis on a connected socket, without blocking: hiredis 0.14 has no TLS, and
 * libmicrohttpd needs GnuTLS anyway. The files are read again for every connection, so that a
 * renewed certificate needs no restart. */
#ifndef RLOCKD_STORAGE_REDIS_TLS_SESSION_H
#define RLOCKD_STORAGE_REDIS_TLS_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct redis_tls_files;

/* The certificate authorities that rlockd trusts, and its own certificate and key. */
struct redis_trust;

/* Reads the files, which may take tens of milliseconds. NULL after one line in `error`. Any
 * thread may call this. */
struct redis_trust *redis_trust_load(const struct redis_tls_files *files, char *error,
                                     size_t error_size);
void redis_trust_free(struct redis_trust *trust);

struct tls_session;

enum tls_progress { TLS_DONE, TLS_WAITS_TO_READ, TLS_WAITS_TO_WRITE, TLS_FAILED };

/* Takes ownership of the non-blocking socket, also when it fails. `server_name`: the name or
 * address that the certificate must be for. `trust` must outlive the handshake. NULL: no
 * memory. */
struct tls_session *tls_session_new(int fd, const struct redis_trust *trust,
                                    const char *server_name);
/* Says goodbye as far as that goes without waiting, and closes the socket. */
void tls_session_free(struct tls_session *session);

/* As far as it goes without waiting. Call it again when the socket is ready. */
enum tls_progress tls_session_handshake(struct tls_session *session);

/* After the handshake. How many bytes were taken, also 0; -1: the connection is over. Bytes
 * that were not taken must come first in the next call. */
ssize_t tls_session_send(struct tls_session *session, const char *data, size_t len);
/* The number of bytes that were read, of one record; 0: none for now; -1: the connection has
 * ended. */
ssize_t tls_session_receive(struct tls_session *session, char *data, size_t size);
/* More may be received although the socket does not say so. */
bool tls_session_has_unread(const struct tls_session *session);

/* The reason of TLS_FAILED or -1, as one phrase for operators. */
const char *tls_session_fault(const struct tls_session *session);

#endif
