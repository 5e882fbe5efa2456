/* The sessions of clients: how many handshakes a turn takes, the checks of clients'
 * certificates, and the end of a session that nobody reads. */
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/tls/tls_internal.h"

/* In a turn of a worker: connections with signatures, key exchanges or checks of certificates.
 * None of them has more than one handshake. */
enum { COSTLY_MAX = 2 };

#define LOG_EVERY_NS (1 * CLOCK_NS_PER_S)

struct tls_conn {
    struct tls_gate *gate;
    gnutls_session_t session;
    struct tls_identity *identity; /* NULL: no handshake has come so far */
    uint64_t charged_turn;         /* of the gate, in which the connection counted last */
    int fd;
    bool is_under_way, is_established, is_ended;
    bool is_verified; /* the client's certificate is a good one */
    bool is_cheap;    /* nothing is left of the handshake but what costs little */
};

/* --- handshakes in turn ------------------------------------------------------------------- */

void tls_gate_open(struct tls_gate *gate)
{
    gate->turn++;
    gate->costly = 0;
    gate->is_holding = false;
}

static bool is_charged(const struct tls_conn *conn)
{
    return conn->charged_turn == conn->gate->turn;
}

static void charge(struct tls_conn *conn)
{
    conn->gate->costly += !is_charged(conn);
    conn->charged_turn = conn->gate->turn;
}

static void set_under_way(struct tls_conn *conn, bool is_under_way)
{
    conn->gate->under_way += (size_t)is_under_way - (size_t)conn->is_under_way;
    conn->is_under_way = is_under_way;
}

static ssize_t pull(gnutls_transport_ptr_t arg, void *data, size_t size)
{
    struct tls_conn *conn = arg;
    /* recv() would still return bytes that the client sent before this server ended the
     * connection. */
    bool is_over = conn->is_ended && !conn->is_established;
    bool is_held = !is_over && !conn->is_established && !conn->is_cheap && !is_charged(conn) &&
                   conn->gate->costly >= COSTLY_MAX;
    ssize_t n = is_over || is_held ? -1 : recv(conn->fd, data, size, 0);

    conn->gate->is_holding |= is_held;
    if (n < 0)
        gnutls_transport_set_errno(conn->session, is_over   ? ECONNRESET
                                                  : is_held ? EAGAIN
                                                            : errno);
    if (!conn->is_established && (is_held || n > 0))
        set_under_way(conn, true);
    return n;
}

static struct tls_conn *conn_of(gnutls_session_t session)
{
    gnutls_transport_ptr_t receive, send;

    gnutls_transport_get_ptr2(session, &receive, &send);
    return receive;
}

/* --- clients' certificates ---------------------------------------------------------------- */

static void log_refusal(struct tls_conn *conn, const char *why)
{
    struct tls_gate *gate = conn->gate;
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    char remote[NI_MAXHOST] = "";
    int64_t now_ns = clock_ns();

    gate->refused++;
    if (gate->logged_ns != 0 && now_ns - gate->logged_ns < LOG_EVERY_NS)
        return;
    if (getpeername(conn->fd, (struct sockaddr *)&address, &size) == 0)
        getnameinfo((struct sockaddr *)&address, size, remote, sizeof(remote), NULL, 0,
                    NI_NUMERICHOST);
    log_write(LOG_LEVEL_INFO, "client certificate refused",
              json_pack("{s:s,s:s,s:i}", "remote", remote, "reason", why, "count",
                        (int)gate->refused));
    gate->refused = 0;
    gate->logged_ns = now_ns;
}

/* libmicrohttpd sends no alert when a handshake fails. */
static void refuse(struct tls_conn *conn, gnutls_alert_description_t alert, const char *why)
{
    metrics_add(conn->gate->metrics, METRIC_REFUSED_CERTIFICATES, 1);
    log_refusal(conn, why);
    gnutls_alert_send(conn->session, GNUTLS_AL_FATAL, alert);
}

static gnutls_alert_description_t alert_of(unsigned status)
{
    if ((status & GNUTLS_CERT_SIGNER_NOT_FOUND) != 0)
        return GNUTLS_A_UNKNOWN_CA;
    if ((status & GNUTLS_CERT_EXPIRED) != 0)
        return GNUTLS_A_CERTIFICATE_EXPIRED;
    if ((status & GNUTLS_CERT_PURPOSE_MISMATCH) != 0)
        return GNUTLS_A_UNSUPPORTED_CERTIFICATE;
    return GNUTLS_A_BAD_CERTIFICATE;
}

/* In TLS 1.2 GnuTLS calls it before it reads the client's key. */
static int verify_client(gnutls_session_t session)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    struct tls_conn *conn = conn_of(session);
    gnutls_datum_t why = {NULL, 0};
    unsigned status = 0;

    if (conn->is_verified)
        return 0;
    if (gnutls_certificate_verify_peers(session, &purpose, 1, &status) != 0)
        status |= GNUTLS_CERT_INVALID;
    conn->is_verified = status == 0;
    if (conn->is_verified)
        return 0;
    gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &why, 0);
    refuse(conn, alert_of(status), why.data != NULL ? (char *)why.data : "out of memory");
    gnutls_free(why.data);
    return GNUTLS_E_CERTIFICATE_ERROR;
}

/* --- callbacks of GnuTLS ------------------------------------------------------------------ */

/* In a handshake, before this server signs it, and before the client is asked for its
 * certificate: libmicrohttpd alone would ask for a certificate, and accept any. */
static int retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
                    int authorities_len, const gnutls_pk_algorithm_t *algorithms,
                    int algorithms_len, gnutls_pcert_st **chain, unsigned *chain_len,
                    gnutls_privkey_t *key)
{
    struct tls_conn *conn = conn_of(session);

    (void)authorities;
    (void)authorities_len;
    (void)algorithms;
    (void)algorithms_len;
    if (conn->identity == NULL)
        conn->identity = tls_identity_take();
    if (tls_client_authorities() != NULL) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_function(session, verify_client);
    }
    *chain = conn->identity->chain;
    *chain_len = conn->identity->chain_len;
    *key = conn->identity->key;
    return 0;
}

void *tls_certificate_callback(void)
{
    return (void *)retrieve;
}

/* An empty list of certificates: RFC 8446 §4.4.2, RFC 5246 §7.4.6. */
static bool is_no_certificate(const gnutls_datum_t *message)
{
    static const unsigned char empty[4];

    return message->size <= sizeof(empty) && memcmp(message->data, empty, message->size) == 0;
}

/* A message of the client that is about to be read. Only the last one of a handshake costs
 * little. Each hello counts: behind one whose key the server did not take comes another (RFC
 * 8446 §4.1.4), and the server works with the key before it answers. In TLS 1.2 the client's
 * key comes later. */
static int before_message(struct tls_conn *conn, unsigned type)
{
    if (type != GNUTLS_HANDSHAKE_FINISHED)
        charge(conn);
    if (type == GNUTLS_HANDSHAKE_CLIENT_KEY_EXCHANGE)
        conn->is_cheap = tls_client_authorities() == NULL;
    /* In TLS 1.3 GnuTLS would check the signature first, with the key of a stranger, which may
     * be so large that this takes seconds. */
    return type == GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY ? verify_client(conn->session) : 0;
}

static int on_message(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                      const gnutls_datum_t *message)
{
    struct tls_conn *conn = conn_of(session);

    if (when == GNUTLS_HOOK_PRE) {
        return incoming ? before_message(conn, type) : 0;
    } else if (!incoming) {
        if (type == GNUTLS_HANDSHAKE_SERVER_HELLO)
            conn->is_cheap = gnutls_protocol_get_version(session) == GNUTLS_TLS1_3 &&
                             tls_client_authorities() == NULL;
    } else if (type == GNUTLS_HANDSHAKE_CERTIFICATE_PKT && is_no_certificate(message)) {
        refuse(conn, GNUTLS_A_CERTIFICATE_REQUIRED, "The client has sent no certificate.");
    } else if (type == GNUTLS_HANDSHAKE_FINISHED) {
        conn->is_established = true;
        set_under_way(conn, false);
    }
    return 0;
}

/* --- life --------------------------------------------------------------------------------- */

static ssize_t pull_nothing(gnutls_transport_ptr_t arg, void *data, size_t size)
{
    (void)arg;
    (void)data;
    (void)size;
    errno = ECONNRESET;
    return -1;
}

void tls_conn_bar(void *session)
{
    gnutls_transport_set_pull_function(session, pull_nothing);
}

void tls_conn_end(struct tls_conn *conn)
{
    if (conn != NULL)
        conn->is_ended = true;
}

bool tls_conn_has_left(const struct tls_conn *conn)
{
    if (conn == NULL || conn->identity != NULL)
        return false;
    struct pollfd look = {.fd = conn->fd, .events = POLLRDHUP};
    return poll(&look, 1, 0) > 0;
}

struct tls_conn *tls_conn_new(struct tls_gate *gate, void *session, int fd)
{
    struct tls_conn *conn = calloc(1, sizeof(*conn));
    gnutls_transport_ptr_t receive, send;

    if (conn == NULL) {
        tls_conn_bar(session);
        return NULL;
    }
    conn->gate = gate;
    conn->charged_turn = gate->turn - 1;
    conn->session = session;
    conn->fd = fd;
    gnutls_transport_get_ptr2(session, &receive, &send);
    gnutls_transport_set_ptr2(session, conn, send);
    gnutls_transport_set_pull_function(session, pull);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_BOTH,
                                       on_message);
    return conn;
}

void tls_conn_free(struct tls_conn *conn)
{
    if (conn == NULL)
        return;
    set_under_way(conn, false);
    if (conn->identity != NULL)
        tls_identity_drop(conn->identity);
    free(conn);
}

/* --- the end ------------------------------------------------------------------------------ */

enum {
    RECORD_HEAD = 5,
    RECORD_ALERT = 21,
    RECORD_APPLICATION_DATA = 23,
    TAG_LEN = 16,
    NONCE_LEN = 12, /* of each cipher of TLS 1.3 */
    /* Two bytes and the type. */
    HIDDEN_ALERT_LEN = 2 + 1,
    HIDDEN_RECORD_LEN = RECORD_HEAD + HIDDEN_ALERT_LEN + TAG_LEN
};

/* TLS 1.3 sends alerts as application data, with the type encrypted: RFC 8446 §5.2. */
static bool is_hidden_alert(gnutls_session_t session, const unsigned char *record)
{
    unsigned char number[8], nonce[NONCE_LEN], plain[HIDDEN_ALERT_LEN + TAG_LEN];
    size_t plain_len = sizeof(plain);
    gnutls_datum_t mac, iv, key;
    gnutls_aead_cipher_hd_t cipher;

    if (gnutls_protocol_get_version(session) != GNUTLS_TLS1_3 ||
        gnutls_record_get_state(session, 1, &mac, &iv, &key, number) != 0 ||
        iv.size != NONCE_LEN ||
        gnutls_aead_cipher_init(&cipher, gnutls_cipher_get(session), &key) != 0)
        return false;
    memcpy(nonce, iv.data, NONCE_LEN);
    for (size_t i = 0; i < sizeof(number); i++)
        nonce[NONCE_LEN - sizeof(number) + i] ^= number[i];
    int failed = gnutls_aead_cipher_decrypt(cipher, nonce, NONCE_LEN, record, RECORD_HEAD,
                                            TAG_LEN, record + RECORD_HEAD,
                                            HIDDEN_RECORD_LEN - RECORD_HEAD, plain, &plain_len);
    gnutls_aead_cipher_deinit(cipher);
    return failed == 0 && plain_len == HIDDEN_ALERT_LEN &&
           plain[HIDDEN_ALERT_LEN - 1] == RECORD_ALERT;
}

bool tls_conn_says_goodbye(const struct tls_conn *conn)
{
    unsigned char record[HIDDEN_RECORD_LEN];
    ssize_t n = recv(conn->fd, record, sizeof(record), MSG_PEEK | MSG_DONTWAIT);

    if (n < RECORD_HEAD)
        return false;
    if (record[0] == RECORD_ALERT)
        return true;
    return record[0] == RECORD_APPLICATION_DATA && n == HIDDEN_RECORD_LEN &&
           (record[3] << 8 | record[4]) == HIDDEN_RECORD_LEN - RECORD_HEAD &&
           is_hidden_alert(conn->session, record);
}
