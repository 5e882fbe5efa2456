/* The server's certificate and authority: reading, checks and replacement. */
#include "server/http/tls.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { CHAIN_MAX = 16 };

/* A certificate with its chain, and its key. Those before stay until the end: a handshake of
 * another thread may use them. */
struct identity {
    struct identity *before;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned chain_len;
    gnutls_privkey_t key;
};

static struct {
    char cert_file[PATH_MAX], key_file[PATH_MAX];
    gnutls_datum_t client_authorities; /* PEM, ended by a NUL; NULL: none */
    _Atomic(struct identity *) identity;
} tls;

static bool fail(char *error, size_t error_size, const char *flag, const char *file,
                 const char *why)
{
    snprintf(error, error_size, "%s: %s: %s", flag, file, why);
    return false;
}

/* Of a call that failed just now. */
static const char *why_of(int code)
{
    return code == GNUTLS_E_FILE_ERROR && errno != 0 ? strerror(errno) : gnutls_strerror(code);
}

/* --- the files ---------------------------------------------------------------------------- */

static void identity_free(struct identity *identity)
{
    while (identity->chain_len > 0)
        gnutls_pcert_deinit(&identity->chain[--identity->chain_len]);
    if (identity->key != NULL)
        gnutls_privkey_deinit(identity->key);
    free(identity);
}

static bool load_chain(struct identity *identity, char *error, size_t error_size)
{
    gnutls_datum_t pem;
    unsigned count = CHAIN_MAX;
    int code = gnutls_load_file(tls.cert_file, &pem);

    if (code == GNUTLS_E_SUCCESS) {
        code = gnutls_pcert_list_import_x509_raw(identity->chain, &count, &pem,
                                                 GNUTLS_X509_FMT_PEM, 0);
        gnutls_free(pem.data);
    }
    if (code != GNUTLS_E_SUCCESS)
        return fail(error, error_size, "--tls-cert", tls.cert_file, why_of(code));
    identity->chain_len = count;
    return true;
}

static bool load_key(struct identity *identity, char *error, size_t error_size)
{
    gnutls_datum_t pem;
    int code = gnutls_load_file(tls.key_file, &pem);

    if (code == GNUTLS_E_SUCCESS) {
        code = gnutls_privkey_init(&identity->key);
        if (code == GNUTLS_E_SUCCESS)
            code = gnutls_privkey_import_x509_raw(identity->key, &pem, GNUTLS_X509_FMT_PEM,
                                                  NULL, 0);
        gnutls_memset(pem.data, 0, pem.size);
        gnutls_free(pem.data);
    }
    return code == GNUTLS_E_SUCCESS ||
           fail(error, error_size, "--tls-key", tls.key_file,
                code == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE ? "no private key was found"
                                                              : why_of(code));
}

/* Is the key that of the certificate? */
static bool is_pair(const struct identity *identity)
{
    unsigned char of_cert[64], of_key[64];
    size_t cert_len = sizeof(of_cert), key_len = sizeof(of_key);
    gnutls_pubkey_t pubkey;

    if (gnutls_pubkey_init(&pubkey) != GNUTLS_E_SUCCESS)
        return false;
    bool ok = gnutls_pubkey_get_key_id(identity->chain[0].pubkey, 0, of_cert, &cert_len) == 0 &&
              gnutls_pubkey_import_privkey(pubkey, identity->key, 0, 0) == 0 &&
              gnutls_pubkey_get_key_id(pubkey, 0, of_key, &key_len) == 0;
    gnutls_pubkey_deinit(pubkey);
    return ok && cert_len == key_len && memcmp(of_cert, of_key, cert_len) == 0;
}

bool tls_reload(char *error, size_t error_size)
{
    struct identity *identity = calloc(1, sizeof(*identity));

    if (identity == NULL)
        return fail(error, error_size, "--tls-cert", tls.cert_file, "out of memory");
    bool ok = load_chain(identity, error, error_size) && load_key(identity, error, error_size);
    if (ok && !is_pair(identity))
        ok = fail(error, error_size, "--tls-key", tls.key_file,
                  "is not the key of the certificate of --tls-cert");
    if (!ok) {
        identity_free(identity);
        return false;
    }
    identity->before = atomic_load(&tls.identity);
    atomic_store(&tls.identity, identity);
    return true;
}

bool tls_start(const char *cert_file, const char *key_file, const char *client_ca_file,
               char *error, size_t error_size)
{
    snprintf(tls.cert_file, sizeof(tls.cert_file), "%s", cert_file);
    snprintf(tls.key_file, sizeof(tls.key_file), "%s", key_file);
    if (client_ca_file[0] != '\0') {
        int code = gnutls_load_file(client_ca_file, &tls.client_authorities);
        if (code != GNUTLS_E_SUCCESS)
            return fail(error, error_size, "--tls-client-ca", client_ca_file, why_of(code));
        if (strstr((char *)tls.client_authorities.data, "-----BEGIN") == NULL)
            return fail(error, error_size, "--tls-client-ca", client_ca_file, "is no PEM file");
    }
    return tls_reload(error, error_size);
}

void tls_stop(void)
{
    struct identity *identity = atomic_exchange(&tls.identity, NULL);

    while (identity != NULL) {
        struct identity *before = identity->before;
        identity_free(identity);
        identity = before;
    }
    gnutls_free(tls.client_authorities.data);
}

/* --- callbacks of libmicrohttpd and GnuTLS ------------------------------------------------ */

bool tls_is_on(void)
{
    return atomic_load(&tls.identity) != NULL;
}

const char *tls_client_authorities(void)
{
    return (const char *)tls.client_authorities.data;
}

/* In a handshake, before the client is asked for its certificate: libmicrohttpd alone would ask
 * for a certificate, and accept any. */
static int retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
                    int authorities_len, const gnutls_pk_algorithm_t *algorithms,
                    int algorithms_len, gnutls_pcert_st **chain, unsigned *chain_len,
                    gnutls_privkey_t *key)
{
    struct identity *identity = atomic_load(&tls.identity);

    (void)authorities;
    (void)authorities_len;
    (void)algorithms;
    (void)algorithms_len;
    if (tls.client_authorities.data != NULL) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_cert(session, NULL, 0);
    }
    *chain = identity->chain;
    *chain_len = identity->chain_len;
    *key = identity->key;
    return 0;
}

void *tls_certificate_callback(void)
{
    return (void *)retrieve;
}

bool tls_says_goodbye(int fd)
{
    enum { HEADER = 5, ALERT = 21, APPLICATION_DATA = 23 };
    /* TLS 1.3 sends alerts as application data: two bytes, their type and a tag of 16 bytes. No
     * request is so short. */
    enum { HIDDEN_ALERT_LEN = 2 + 1 + 16 };
    unsigned char header[HEADER];

    if (recv(fd, header, HEADER, MSG_PEEK | MSG_DONTWAIT) != HEADER)
        return false;
    return header[0] == ALERT ||
           (header[0] == APPLICATION_DATA && (header[3] << 8 | header[4]) == HIDDEN_ALERT_LEN);
}
