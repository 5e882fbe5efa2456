/* The server's certificate and authority: reading, checks and replacement. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/tls/tls_internal.h"

static struct {
    char cert_file[PATH_MAX], key_file[PATH_MAX];
    gnutls_datum_t client_authorities; /* PEM, ended by a NUL; NULL: none */
    bool is_on;                        /* does not change while there are threads */
    pthread_mutex_t mutex;             /* of `identity` and the numbers of users */
    struct tls_identity *identity;
} tls = {.mutex = PTHREAD_MUTEX_INITIALIZER};

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

static void identity_free(struct tls_identity *identity)
{
    while (identity->chain_len > 0)
        gnutls_pcert_deinit(&identity->chain[--identity->chain_len]);
    if (identity->key != NULL)
        gnutls_privkey_deinit(identity->key);
    free(identity);
}

static bool load_chain(struct tls_identity *identity, char *error, size_t error_size)
{
    gnutls_datum_t pem;
    unsigned count = TLS_CHAIN_MAX;
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

static bool load_key(struct tls_identity *identity, char *error, size_t error_size)
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
static bool is_pair(const struct tls_identity *identity)
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

struct tls_identity *tls_identity_take(void)
{
    pthread_mutex_lock(&tls.mutex);
    struct tls_identity *identity = tls.identity;
    identity->users++;
    pthread_mutex_unlock(&tls.mutex);
    return identity;
}

void tls_identity_drop(struct tls_identity *identity)
{
    pthread_mutex_lock(&tls.mutex);
    bool is_unused = --identity->users == 0;
    pthread_mutex_unlock(&tls.mutex);
    if (is_unused)
        identity_free(identity);
}

/* NULL: none from now on. */
static void replace_identity(struct tls_identity *identity)
{
    pthread_mutex_lock(&tls.mutex);
    struct tls_identity *before = tls.identity;
    tls.identity = identity;
    pthread_mutex_unlock(&tls.mutex);
    if (before != NULL)
        tls_identity_drop(before);
}

bool tls_reload(char *error, size_t error_size)
{
    struct tls_identity *identity = calloc(1, sizeof(*identity));

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
    identity->users = 1;
    replace_identity(identity);
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
    tls.is_on = tls_reload(error, error_size);
    return tls.is_on;
}

void tls_stop(void)
{
    tls.is_on = false;
    replace_identity(NULL);
    gnutls_free(tls.client_authorities.data);
    tls.client_authorities = (gnutls_datum_t){NULL, 0};
}

bool tls_is_on(void)
{
    return tls.is_on;
}

const char *tls_client_authorities(void)
{
    return (const char *)tls.client_authorities.data;
}
