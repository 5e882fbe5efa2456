/* TLS for the load generator's connections. The handshake is waited for; it is not measured. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <poll.h>

#include "tests/bench/load_client.h"

static gnutls_certificate_credentials_t credentials;

void load_tls_open(struct load_conn *conn)
{
    int failed;

    if (credentials == NULL && gnutls_certificate_allocate_credentials(&credentials) != 0)
        load_fail("out of memory");
    if (gnutls_init(&conn->tls, GNUTLS_CLIENT | GNUTLS_NO_TICKETS) != 0 ||
        gnutls_set_default_priority(conn->tls) != 0 ||
        gnutls_credentials_set(conn->tls, GNUTLS_CRD_CERTIFICATE, credentials) != 0)
        load_fail("TLS cannot be set up");
    gnutls_transport_set_int(conn->tls, conn->fd);
    do {
        failed = gnutls_handshake(conn->tls);
    } while (failed != 0 && !gnutls_error_is_fatal(failed));
    if (failed != 0)
        load_fail("TLS: %s", gnutls_strerror(failed));
}

void load_tls_close(struct load_conn *conn)
{
    gnutls_bye(conn->tls, GNUTLS_SHUT_WR);
    gnutls_deinit(conn->tls);
    conn->tls = NULL;
}

ssize_t load_tls_send(struct load_conn *conn, const char *text, size_t len)
{
    return gnutls_record_send(conn->tls, text, len);
}

/* The socket blocks: what is no whole record yet is waited for, once something is there. */
ssize_t load_tls_receive(struct load_conn *conn, char *text, size_t size)
{
    struct pollfd readable = {.fd = conn->fd, .events = POLLIN};

    if (!load_tls_has_more(conn) && poll(&readable, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    ssize_t got = gnutls_record_recv(conn->tls, text, size);
    if (got >= 0)
        return got;
    errno = gnutls_error_is_fatal((int)got) ? EPROTO : EAGAIN;
    return -1;
}

bool load_tls_has_more(const struct load_conn *conn)
{
    return gnutls_record_check_pending(conn->tls) > 0;
}
