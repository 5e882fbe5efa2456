/* The certificate of tests of TLS. */
#include "tests/unit/certificate.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

char certificate_path[] = "/tmp/rlockd-cert-XXXXXX";
char certificate_key_path[] = "/tmp/rlockd-key-XXXXXX";

static void write_file(char *path, const gnutls_datum_t *data)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data->data, data->size), data->size);
    close(fd);
}

void certificate_write(int days, const char *purpose)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    gnutls_datum_t pem;
    time_t now = time(NULL);

    gnutls_x509_privkey_init(&key);
    gnutls_x509_crt_init(&cert);
    assert_int_equal(
        gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                     GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
        0);
    gnutls_x509_crt_set_key(cert, key);
    gnutls_x509_crt_set_version(cert, 3);
    gnutls_x509_crt_set_serial(cert, "\1", 1);
    gnutls_x509_crt_set_dn(cert, "CN=test", NULL);
    gnutls_x509_crt_set_ca_status(cert, 1);
    gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_DNSNAME, CERTIFICATE_NAME,
                                         strlen(CERTIFICATE_NAME), GNUTLS_FSAN_SET);
    if (purpose != NULL)
        assert_int_equal(gnutls_x509_crt_set_key_purpose_oid(cert, purpose, 0), 0);
    gnutls_x509_crt_set_activation_time(cert, now - 10 * 86400);
    gnutls_x509_crt_set_expiration_time(cert, now + days * 86400);
    assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    memcpy(certificate_path + strlen(certificate_path) - 6, "XXXXXX", 6);
    memcpy(certificate_key_path + strlen(certificate_key_path) - 6, "XXXXXX", 6);
    gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem);
    write_file(certificate_path, &pem);
    gnutls_free(pem.data);
    gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem);
    write_file(certificate_key_path, &pem);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

void certificate_remove(void)
{
    unlink(certificate_path);
    unlink(certificate_key_path);
}
