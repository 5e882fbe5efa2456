/* server/tls/tls.c and tls_conn.c: sessions with clients of GnuTLS, in one thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <malloc.h>
#include <stdio.h>

#include "tests/unit/tls_pair.h"

enum {
    RELOADS = 300,
    /* A certificate with its key has 8 KiB, so all of them 2 MiB. */
    RELOADS_GROWTH_MAX = 256 * 1024
};

static int retries;

static int on_client_message(gnutls_session_t session, unsigned type, unsigned when,
                             unsigned incoming, const gnutls_datum_t *message)
{
    (void)session;
    (void)when;
    (void)message;
    retries += incoming && type == GNUTLS_HANDSHAKE_HELLO_RETRY_REQUEST;
    return 0;
}

/* The groups whose key common clients send at once: OpenSSL's first one, and that of servers
 * which have to keep to FIPS 140. */
static void common_clients_need_no_retry(void **state)
{
    static const char *const groups[] = {"X25519:+GROUP-SECP256R1", "SECP256R1"};
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    char priorities[128];

    (void)state;
    retries = 0;
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        snprintf(priorities, sizeof(priorities),
                 "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:+GROUP-%s", groups[i]);
        struct tls_pair pair = tls_pair_open_with(&gate, GNUTLS_KEY_SHARE_TOP, priorities);
        gnutls_handshake_set_hook_function(pair.client, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_POST,
                                           on_client_message);
        tls_pair_shake_hands_alone(&gate, &pair);
        tls_pair_close(&pair);
    }
    assert_int_equal(retries, 0);
}

static void expect_goodbye_alone(const char *priorities)
{
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair pair = tls_pair_open(&gate, priorities);
    char bytes[16];

    tls_pair_shake_hands_alone(&gate, &pair);
    assert_false(tls_conn_says_goodbye(pair.conn));
    for (size_t len = 1; len <= 4; len++) {
        assert_int_equal(gnutls_record_send(pair.client, "GET ", len), len);
        assert_false(tls_conn_says_goodbye(pair.conn));
        assert_int_equal(gnutls_record_recv(pair.server, bytes, sizeof(bytes)), len);
    }
    assert_int_equal(gnutls_bye(pair.client, GNUTLS_SHUT_WR), 0);
    assert_true(tls_conn_says_goodbye(pair.conn));
    /* The record is there still. */
    assert_int_equal(gnutls_record_recv(pair.server, bytes, sizeof(bytes)), 0);
    tls_pair_close(&pair);
}

/* Records of a few bytes are as long as that of an end. */
static void only_an_end_is_an_end(void **state)
{
    (void)state;
    expect_goodbye_alone("NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM");
    expect_goodbye_alone("NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-256-GCM");
    expect_goodbye_alone("NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305");
    expect_goodbye_alone("NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-GCM");
    expect_goodbye_alone("NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+CHACHA20-POLY1305");
}

static void reload(int times)
{
    char error[256];

    for (int i = 0; i < times; i++)
        assert_true(tls_reload(error, sizeof(error)));
}

/* A handshake under way keeps the certificate with which it began; nothing else does. */
static void old_certificates_go(void **state)
{
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair pair = tls_pair_open(&gate, "NORMAL");

    (void)state;
    assert_false(tls_pair_shake_hands(&pair));
    reload(10);
    size_t before = mallinfo2().uordblks;
    reload(RELOADS);
#ifndef SANITIZED
    assert_true(mallinfo2().uordblks < before + RELOADS_GROWTH_MAX);
#endif
    (void)before;
    tls_pair_shake_hands_alone(&gate, &pair);
    tls_pair_close(&pair);
}

static void only_forward_secrecy_and_aead(void **state)
{
    static const gnutls_cipher_algorithm_t aead[] = {
        GNUTLS_CIPHER_AES_128_GCM, GNUTLS_CIPHER_AES_256_GCM, GNUTLS_CIPHER_CHACHA20_POLY1305};
    gnutls_priority_t priorities;
    const unsigned *groups;
    unsigned id;
    int suites = 0;

    (void)state;
    assert_int_equal(gnutls_priority_init(&priorities, TLS_PRIORITIES, NULL), 0);
    for (unsigned i = 0; gnutls_priority_get_cipher_suite_index(priorities, i, &id) !=
                         GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
         i++) {
        gnutls_kx_algorithm_t exchange;
        gnutls_cipher_algorithm_t cipher;
        const char *name = gnutls_cipher_suite_info(id, NULL, &exchange, &cipher, NULL, NULL);
        bool is_aead = false;
        if (name == NULL)
            continue;
        suites++;
        for (size_t k = 0; k < sizeof(aead) / sizeof(aead[0]); k++)
            is_aead |= cipher == aead[k];
        if (!is_aead || exchange == GNUTLS_KX_RSA || exchange == GNUTLS_KX_DHE_RSA)
            fail_msg("%s", name);
    }
    assert_true(suites > 0);
    int count = gnutls_priority_group_list(priorities, &groups);
    for (int i = 0; i < count; i++)
        if (groups[i] != GNUTLS_GROUP_X25519 && groups[i] != GNUTLS_GROUP_SECP256R1 &&
            groups[i] != GNUTLS_GROUP_SECP384R1)
            fail_msg("%s", gnutls_group_get_name(groups[i]));
    gnutls_priority_deinit(priorities);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_clients_need_no_retry),
        cmocka_unit_test(only_an_end_is_an_end),
        cmocka_unit_test(old_certificates_go),
        cmocka_unit_test(only_forward_secrecy_and_aead),
    };

    return cmocka_run_group_tests(tests, tls_pair_set_up, tls_pair_tear_down);
}
