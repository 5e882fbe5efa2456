/* The GnuTLS session of a connection to Redis. */
#include "storage/redis/tls_session.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "storage/redis/url.h"

/* TLS 1.2 and 1.3, with the algorithms that GnuTLS and the system's policy consider secure. */
#define PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

enum {
    RECORD_MAX = 16384,              /* plain bytes */
    RECEIVE_SIZE = RECORD_MAX + 512, /* one record at least in one call of the kernel */
    WARNINGS_MAX = 16,               /* in a handshake */
    RECORDS_IN_ONE_GO = 64,          /* of those that are sent: other work comes first */
    FIRST_ALERT = 21,
    FIRST_HANDSHAKE = 22 /* types of the records that a TLS server begins with */
};

struct redis_trust {
    gnutls_certificate_credentials_t credentials;
};

struct tls_session {
    int fd;
    gnutls_session_t session;
    char server_name[REDIS_URL_HOST_SIZE];
    gnutls_typed_vdata_st expected[2]; /* GnuTLS keeps pointers to these */
    bool is_established;
    bool is_over;
    bool is_sending;  /* a record that GnuTLS has, and the socket has not */
    bool is_answered; /* bytes arrived after the handshake */
    bool is_asked;    /* for our certificate */
    unsigned char first_byte;
    char fault[128];
    size_t unread_from, unread_to;
    unsigned char received[RECEIVE_SIZE];
};

/* --- the files ---------------------------------------------------------------------------- */

static bool is_given(const char *path)
{
    return path != NULL && path[0] != '\0';
}

static bool fail(char *error, size_t error_size, const char *flag, const char *what,
                 const char *why)
{
    snprintf(error, error_size, "%s: %s: %s", flag, what, why);
    return false;
}

/* Of a call that failed just now. */
static const char *why_of(int code)
{
    return code == GNUTLS_E_FILE_ERROR && errno != 0 ? strerror(errno) : gnutls_strerror(code);
}

static bool trust_authorities(struct redis_trust *trust, const char *path, char *error,
                              size_t error_size)
{
    static const char none[] = "has no certificate of an authority";
    const char *what = is_given(path) ? path : "the system's authorities (ca-certificates)";
    int count = is_given(path) ? gnutls_certificate_set_x509_trust_file(
                                     trust->credentials, path, GNUTLS_X509_FMT_PEM)
                               : gnutls_certificate_set_x509_system_trust(trust->credentials);

    return count > 0 ||
           fail(error, error_size, "--redis-tls-ca", what, count == 0 ? none : why_of(count));
}

static bool use_certificate(struct redis_trust *trust, const struct redis_tls_files *files,
                            char *error, size_t error_size)
{
    if (!is_given(files->cert))
        return true;
    int code = gnutls_certificate_set_x509_key_file(trust->credentials, files->cert, files->key,
                                                    GNUTLS_X509_FMT_PEM);
    return code >= 0 || fail(error, error_size, "--redis-tls-cert and --redis-tls-key",
                             files->cert, why_of(code));
}

struct redis_trust *redis_trust_load(const struct redis_tls_files *files, char *error,
                                     size_t error_size)
{
    struct redis_trust *trust = calloc(1, sizeof(*trust));

    if (trust == NULL || gnutls_certificate_allocate_credentials(&trust->credentials) != 0) {
        snprintf(error, error_size, "certificates for Redis: out of memory");
        free(trust);
        return NULL;
    }
    if (trust_authorities(trust, files->ca, error, error_size) &&
        use_certificate(trust, files, error, error_size))
        return trust;
    redis_trust_free(trust);
    return NULL;
}

void redis_trust_free(struct redis_trust *trust)
{
    if (trust == NULL)
        return;
    gnutls_certificate_free_credentials(trust->credentials);
    free(trust);
}

/* --- the socket, as GnuTLS uses it -------------------------------------------------------- */

/* GnuTLS asks for the head of a record and for its body: the kernel is asked once for all. */
static ssize_t pull(gnutls_transport_ptr_t arg, void *data, size_t size)
{
    struct tls_session *session = arg;

    if (session->unread_from == session->unread_to) {
        ssize_t n = recv(session->fd, session->received, sizeof(session->received), 0);
        if (n <= 0) {
            gnutls_transport_set_errno(session->session, n == 0 ? 0 : errno);
            return n;
        }
        if (session->first_byte == 0)
            session->first_byte = session->received[0];
        session->unread_from = 0;
        session->unread_to = (size_t)n;
    }
    size_t left = session->unread_to - session->unread_from;
    size_t taken = size < left ? size : left;
    memcpy(data, session->received + session->unread_from, taken);
    session->unread_from += taken;
    return (ssize_t)taken;
}

static ssize_t push(gnutls_transport_ptr_t arg, const giovec_t *pieces, int count)
{
    struct tls_session *session = arg;
    const struct msghdr message = {.msg_iov = (struct iovec *)pieces,
                                   .msg_iovlen = (size_t)count};
    ssize_t n = sendmsg(session->fd, &message, MSG_NOSIGNAL);

    if (n < 0)
        gnutls_transport_set_errno(session->session, errno);
    return n;
}

/* --- reasons of failures ------------------------------------------------------------------ */

static const char *certificate_fault(const struct tls_session *session)
{
    unsigned status = gnutls_session_get_verify_cert_status(session->session);
    unsigned not_now = GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED;

    if ((status & GNUTLS_CERT_UNEXPECTED_OWNER) != 0)
        return "Redis' certificate is for another name";
    if ((status & not_now) != 0 && (status & GNUTLS_CERT_SIGNER_NOT_FOUND) == 0)
        return "Redis' certificate has expired, or is not valid yet";
    if ((status & GNUTLS_CERT_PURPOSE_MISMATCH) != 0)
        return "Redis' certificate is not one for servers";
    return "Redis' certificate is not trusted";
}

static bool is_about_our_certificate(gnutls_alert_description_t alert)
{
    switch (alert) {
    case GNUTLS_A_CERTIFICATE_REQUIRED:
    case GNUTLS_A_BAD_CERTIFICATE:
    case GNUTLS_A_UNSUPPORTED_CERTIFICATE:
    case GNUTLS_A_CERTIFICATE_REVOKED:
    case GNUTLS_A_CERTIFICATE_EXPIRED:
    case GNUTLS_A_CERTIFICATE_UNKNOWN:
    case GNUTLS_A_UNKNOWN_CA:
    case GNUTLS_A_ACCESS_DENIED:
        return true;
    default:
        return false;
    }
}

/* The reason of a failed handshake; NULL: GnuTLS' own text is the best description. */
static const char *handshake_fault(const struct tls_session *session, int code)
{
    if (session->first_byte != 0 && session->first_byte != FIRST_ALERT &&
        session->first_byte != FIRST_HANDSHAKE)
        return "Redis does not speak TLS on this port";
    if (code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
        return certificate_fault(session);
    return NULL;
}

static void note_fault(struct tls_session *session, int code)
{
    const char *fault = NULL;

    if (session->is_over)
        return;
    session->is_over = true;
    bool is_alert = code == GNUTLS_E_FATAL_ALERT_RECEIVED &&
                    is_about_our_certificate(gnutls_alert_get(session->session));
    /* With TLS 1.3 Redis looks at our certificate after our part of the handshake, and the
     * alert may get lost. */
    if (is_alert || (session->is_established && !session->is_answered && session->is_asked))
        fault = "Redis wants a client certificate, or refuses ours";
    else
        fault = session->is_established ? "the connection was lost"
                                        : handshake_fault(session, code);
    if (fault != NULL)
        snprintf(session->fault, sizeof(session->fault), "%s", fault);
    else
        snprintf(session->fault, sizeof(session->fault), "TLS handshake failed: %s",
                 gnutls_strerror(code));
}

const char *tls_session_fault(const struct tls_session *session)
{
    return session->fault;
}

/* --- life --------------------------------------------------------------------------------- */

/* GnuTLS' own gnutls_certificate_client_get_request_status() knows TLS 1.2 only. */
static int on_certificate_request(gnutls_session_t tls, unsigned message, unsigned when,
                                  unsigned incoming, const gnutls_datum_t *bytes)
{
    struct tls_session *session = gnutls_session_get_ptr(tls);

    (void)message;
    (void)when;
    (void)incoming;
    (void)bytes;
    session->is_asked = true;
    return 0;
}

static bool set_up(struct tls_session *session, const struct redis_trust *trust)
{
    gnutls_session_t tls = session->session;

    gnutls_session_set_ptr(tls, session);
    gnutls_handshake_set_hook_function(tls, GNUTLS_HANDSHAKE_CERTIFICATE_REQUEST,
                                       GNUTLS_HOOK_POST, on_certificate_request);
    gnutls_transport_set_ptr(tls, session);
    gnutls_transport_set_pull_function(tls, pull);
    gnutls_transport_set_vec_push_function(tls, push);
    session->expected[0] = (gnutls_typed_vdata_st){
        .type = GNUTLS_DT_DNS_HOSTNAME, .data = (unsigned char *)session->server_name};
    session->expected[1] = (gnutls_typed_vdata_st){
        .type = GNUTLS_DT_KEY_PURPOSE_OID, .data = (unsigned char *)GNUTLS_KP_TLS_WWW_SERVER};
    gnutls_session_set_verify_cert2(tls, session->expected, 2, 0);
    return gnutls_priority_set_direct(tls, PRIORITIES, NULL) == 0 &&
           gnutls_credentials_set(tls, GNUTLS_CRD_CERTIFICATE, trust->credentials) == 0 &&
           (redis_host_is_address(session->server_name) ||
            gnutls_server_name_set(tls, GNUTLS_NAME_DNS, session->server_name,
                                   strlen(session->server_name)) == 0);
}

struct tls_session *tls_session_new(int fd, const struct redis_trust *trust,
                                    const char *server_name)
{
    struct tls_session *session = calloc(1, sizeof(*session));

    if (session == NULL) {
        close(fd);
        return NULL;
    }
    session->fd = fd;
    snprintf(session->server_name, sizeof(session->server_name), "%s", server_name);
    if (gnutls_init(&session->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL |
                                           GNUTLS_NO_TICKETS) != 0)
        session->session = NULL;
    if (session->session != NULL && set_up(session, trust))
        return session;
    tls_session_free(session);
    return NULL;
}

void tls_session_free(struct tls_session *session)
{
    if (session == NULL)
        return;
    if (session->is_established && !session->is_over)
        gnutls_bye(session->session, GNUTLS_SHUT_WR);
    if (session->session != NULL)
        gnutls_deinit(session->session);
    close(session->fd);
    free(session);
}

/* --- the connection ----------------------------------------------------------------------- */

enum tls_progress tls_session_handshake(struct tls_session *session)
{
    int code = GNUTLS_E_INTERRUPTED;

    for (int i = 0; i < WARNINGS_MAX && code != 0 && !gnutls_error_is_fatal(code); i++) {
        code = gnutls_handshake(session->session);
        if (code == GNUTLS_E_AGAIN)
            break;
    }
    if (code == GNUTLS_E_AGAIN)
        return gnutls_record_get_direction(session->session) == 0 ? TLS_WAITS_TO_READ
                                                                  : TLS_WAITS_TO_WRITE;
    if (code != GNUTLS_E_SUCCESS) {
        note_fault(session, code);
        return TLS_FAILED;
    }
    session->is_established = true;
    gnutls_credentials_clear(session->session); /* the trust may be freed: no certificate is
                                                   verified after the handshake */
    return TLS_DONE;
}

ssize_t tls_session_send(struct tls_session *session, const char *data, size_t len)
{
    size_t sent = 0;

    for (int i = 0; i < RECORDS_IN_ONE_GO && sent < len; i++) {
        ssize_t n = session->is_sending
                        ? gnutls_record_send(session->session, NULL, 0)
                        : gnutls_record_send(session->session, data + sent, len - sent);
        session->is_sending = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED;
        if (session->is_sending)
            break;
        if (n < 0) {
            note_fault(session, (int)n);
            return -1;
        }
        sent += (size_t)n;
    }
    return (ssize_t)sent;
}

ssize_t tls_session_receive(struct tls_session *session, char *data, size_t size)
{
    ssize_t n = gnutls_record_recv(session->session, data, size);

    if (n > 0) {
        session->is_answered = true;
        return n;
    }
    /* A close_notify is no better than a lost connection: Redis does not end them. */
    if (n == 0 || gnutls_error_is_fatal((int)n)) {
        note_fault(session, n == 0 ? GNUTLS_E_PREMATURE_TERMINATION : (int)n);
        return -1;
    }
    return 0;
}

bool tls_session_has_unread(const struct tls_session *session)
{
    return session->unread_from < session->unread_to ||
           gnutls_record_check_pending(session->session) > 0;
}
