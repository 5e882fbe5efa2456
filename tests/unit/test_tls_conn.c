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
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/metrics.h"
#include "server/tls/tls.h"
#include "tests/unit/certificate.h"

enum {
    COUNT = 6,
    TURNS_MAX = 50,
    RELOADS = 300,
    /* A certificate with its key has 8 KiB, so all of them 2 MiB. */
    RELOADS_GROWTH_MAX = 256 * 1024
};

struct pair {
    int fds[2]; /* the client's, and the server's */
    gnutls_session_t client, server;
    struct tls_conn *conn;
    bool client_is_done, server_is_done;
};

static struct metrics metrics;
static gnutls_certificate_credentials_t server_credentials, client_credentials,
    certified_credentials; /* of clients that have a certificate */

/* "": clients need no certificate. */
static void start(const char *client_authorities)
{
    char error[256];

    assert_true(tls_start(certificate_path, certificate_key_path, client_authorities, error,
                          sizeof(error)));
}

static int set_up(void **state)
{
    (void)state;
    certificate_write(1, NULL);
    assert_int_equal(metrics_init(&metrics, 0), 0);
    start("");
    gnutls_certificate_allocate_credentials(&client_credentials);
    gnutls_certificate_allocate_credentials(&certified_credentials);
    gnutls_certificate_set_x509_key_file(certified_credentials, certificate_path,
                                         certificate_key_path, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_allocate_credentials(&server_credentials);
    gnutls_certificate_set_x509_trust_file(server_credentials, certificate_path,
                                           GNUTLS_X509_FMT_PEM);
    gnutls_certificate_set_retrieve_function2(
        server_credentials,
        (gnutls_certificate_retrieve_function2 *)tls_certificate_callback());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gnutls_certificate_free_credentials(client_credentials);
    gnutls_certificate_free_credentials(certified_credentials);
    gnutls_certificate_free_credentials(server_credentials);
    tls_stop();
    metrics_release(&metrics);
    certificate_remove();
    return 0;
}

static gnutls_session_t new_session(unsigned flags, const char *priorities,
                                    gnutls_certificate_credentials_t credentials, int fd)
{
    gnutls_session_t session;

    assert_int_equal(gnutls_init(&session, flags | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL), 0);
    assert_int_equal(gnutls_priority_set_direct(session, priorities, NULL), 0);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_transport_set_int(session, fd);
    return session;
}

static struct pair pair_open_with(struct tls_gate *gate, unsigned flags, const char *priorities)
{
    struct pair pair = {.conn = NULL};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.fds), 0);
    pair.client = new_session(GNUTLS_CLIENT | flags, priorities, client_credentials,
                              pair.fds[0]);
    pair.server = new_session(GNUTLS_SERVER, TLS_PRIORITIES, server_credentials, pair.fds[1]);
    pair.conn = tls_conn_new(gate, pair.server, pair.fds[1]);
    return pair;
}

static struct pair pair_open(struct tls_gate *gate, const char *priorities)
{
    return pair_open_with(gate, 0, priorities);
}

static void pair_close(struct pair *pair)
{
    tls_conn_free(pair->conn);
    gnutls_deinit(pair->client);
    gnutls_deinit(pair->server);
    close(pair->fds[0]);
    close(pair->fds[1]);
}

static void go_on(gnutls_session_t session, bool *is_done)
{
    if (*is_done)
        return;
    int code = gnutls_handshake(session);
    if (code < 0 && gnutls_error_is_fatal(code))
        fail_msg("%s", gnutls_strerror(code));
    *is_done = code == 0;
}

/* Both sides go on as far as they can. True: both are done. */
static bool shake_hands(struct pair *pair)
{
    go_on(pair->client, &pair->client_is_done);
    go_on(pair->server, &pair->server_is_done);
    return pair->client_is_done && pair->server_is_done;
}

static void shake_hands_alone(struct tls_gate *gate, struct pair *pair)
{
    for (int turn = 0; !shake_hands(pair); turn++) {
        assert_true(turn < TURNS_MAX);
        tls_gate_open(gate);
    }
}

static int unread(int fd)
{
    int len = 0;

    ioctl(fd, FIONREAD, &len);
    return len;
}

/* To how many clients has the server answered anything? */
static int answered(const struct pair *pairs)
{
    int count = 0;

    for (int i = 0; i < COUNT; i++)
        count += unread(pairs[i].fds[0]) > 0;
    return count;
}

static void two_handshakes_a_turn(void **state)
{
    struct tls_gate gate = {.metrics = &metrics};
    struct pair pairs[COUNT];
    int done = 0;

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        pairs[i] = pair_open(&gate, "NORMAL");
        assert_int_equal(gnutls_handshake(pairs[i].client), GNUTLS_E_AGAIN);
    }
    tls_gate_open(&gate);
    for (int run = 0; run < 3; run++)
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(gnutls_handshake(pairs[i].server), GNUTLS_E_AGAIN);
    assert_int_equal(answered(pairs), 2);
    assert_int_equal(gate.under_way, COUNT);
    tls_gate_open(&gate);
    for (int i = COUNT - 1; i >= 0; i--)
        gnutls_handshake(pairs[i].server);
    assert_int_equal(answered(pairs), 4);
    for (int turn = 0; done < COUNT; turn++) {
        assert_true(turn < TURNS_MAX);
        tls_gate_open(&gate);
        done = 0;
        for (int i = 0; i < COUNT; i++)
            done += shake_hands(&pairs[i]);
    }
    assert_int_equal(gate.under_way, 0);
    for (int i = 0; i < COUNT; i++)
        pair_close(&pairs[i]);
}

/* All clients together, after their first messages have been answered, each in a turn of its
 * own: how many servers answer the next ones in one turn? */
static int answered_at_once(unsigned flags, const char *priorities)
{
    struct tls_gate gate = {.metrics = &metrics};
    struct pair pairs[COUNT];

    for (int i = 0; i < COUNT; i++) {
        pairs[i] = pair_open_with(&gate, flags, priorities);
        tls_gate_open(&gate);
        shake_hands(&pairs[i]);
        assert_true(unread(pairs[i].fds[0]) > 0);
    }
    for (int i = 0; i < COUNT; i++) {
        go_on(pairs[i].client, &pairs[i].client_is_done);
        assert_int_equal(unread(pairs[i].fds[0]), 0);
    }
    tls_gate_open(&gate);
    for (int i = 0; i < COUNT; i++)
        go_on(pairs[i].server, &pairs[i].server_is_done);
    int count = answered(pairs);
    for (int i = 0; i < COUNT; i++) {
        shake_hands_alone(&gate, &pairs[i]);
        pair_close(&pairs[i]);
    }
    assert_int_equal(gate.under_way, 0);
    return count;
}

/* The key of the first message is of a group that the server does not take, so it asks for
 * another one (RFC 8446 §4.1.4), and works with that. */
static void two_handshakes_a_turn_after_a_retry(void **state)
{
    (void)state;
    assert_int_equal(answered_at_once(GNUTLS_KEY_SHARE_TOP,
                                      "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:"
                                      "+GROUP-SECP384R1:+GROUP-SECP256R1"),
                     2);
}

/* In TLS 1.2 the server works with the client's key after its own signature. */
static void two_key_exchanges_a_turn(void **state)
{
    (void)state;
    assert_int_equal(answered_at_once(0, "NORMAL:-VERS-ALL:+VERS-TLS1.2"), 2);
}

static int ask_for_certificates(void **state)
{
    (void)state;
    tls_stop();
    start(certificate_path);
    return 0;
}

static int ask_for_nothing(void **state)
{
    (void)state;
    tls_stop();
    start("");
    return 0;
}

static int spoil_signature(gnutls_session_t session, unsigned type, unsigned when,
                           unsigned incoming, const gnutls_datum_t *message)
{
    (void)session;
    (void)type;
    (void)when;
    if (!incoming)
        message->data[message->size - 1] ^= 1;
    return 0;
}

/* The client has sent its certificate, and a wrong signature. The next turn begins. */
static struct pair pair_open_with_wrong_signature(struct tls_gate *gate, const char *priorities)
{
    struct pair pair = pair_open(gate, priorities);

    gnutls_credentials_set(pair.client, GNUTLS_CRD_CERTIFICATE, certified_credentials);
    gnutls_handshake_set_hook_function(pair.client, GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY,
                                       GNUTLS_HOOK_PRE, spoil_signature);
    tls_gate_open(gate);
    shake_hands(&pair);
    go_on(pair.client, &pair.client_is_done);
    tls_gate_open(gate);
    return pair;
}

/* Of all clients together, how many signatures does the server check in one turn? */
static int refused_at_once(const char *priorities)
{
    struct tls_gate gate = {.metrics = &metrics};
    struct pair pairs[COUNT];
    int count = 0;

    for (int i = 0; i < COUNT; i++)
        pairs[i] = pair_open_with_wrong_signature(&gate, priorities);
    for (int i = 0; i < COUNT; i++)
        count += gnutls_error_is_fatal(gnutls_handshake(pairs[i].server));
    for (int i = 0; i < COUNT; i++)
        pair_close(&pairs[i]);
    return count;
}

static void two_wrong_signatures_a_turn(void **state)
{
    (void)state;
    assert_int_equal(refused_at_once("NORMAL:-VERS-ALL:+VERS-TLS1.3"), 2);
    assert_int_equal(refused_at_once("NORMAL:-VERS-ALL:+VERS-TLS1.2"), 2);
}

/* A certificate of a stranger may have a key of any size, so that a check of its signature
 * takes seconds. */
static void no_signature_of_a_stranger_is_checked(void **state)
{
    struct tls_gate gate = {.metrics = &metrics};
    struct pair pair = pair_open_with_wrong_signature(&gate, "NORMAL:-VERS-ALL:+VERS-TLS1.3");

    (void)state;
    assert_int_equal(gnutls_handshake(pair.server), GNUTLS_E_PK_SIG_VERIFY_FAILED);
    pair_close(&pair);
    pair = pair_open_with_wrong_signature(&gate, "NORMAL:-VERS-ALL:+VERS-TLS1.3");
    /* They have no authority, so that every client is a stranger. */
    gnutls_credentials_set(pair.server, GNUTLS_CRD_CERTIFICATE, client_credentials);
    assert_int_equal(gnutls_handshake(pair.server), GNUTLS_E_CERTIFICATE_ERROR);
    pair_close(&pair);
}

/* Hellos of SSL 2.0 may offer TLS 1.2: RFC 5246 §E.2. */
static void two_old_hellos_a_turn(void **state)
{
    static const unsigned char hello[] =
        "\x80\x2f\1\3\3\0\6\0\0\0\x20"      /* client hello, TLS 1.2 */
        "\0\xc0\x2b\0\0\xff"                /* ECDHE-ECDSA-AES128-GCM-SHA256, RFC 5746 */
        "0123456789abcdef0123456789abcdef"; /* random */
    struct tls_gate gate = {.metrics = &metrics};
    struct pair pairs[COUNT];

    (void)state;
    tls_gate_open(&gate);
    for (int i = 0; i < COUNT; i++) {
        pairs[i] = pair_open(&gate, "NORMAL");
        assert_int_equal(write(pairs[i].fds[0], hello, sizeof(hello) - 1), sizeof(hello) - 1);
        assert_int_equal(gnutls_handshake(pairs[i].server), GNUTLS_E_AGAIN);
    }
    assert_int_equal(answered(pairs), 2);
    for (int i = 0; i < COUNT; i++)
        pair_close(&pairs[i]);
}

/* Two clients get through their handshakes in one turn, the third one waits. */
static void expect_two_clients_a_turn(const char *priorities)
{
    struct tls_gate gate = {.metrics = &metrics};
    struct pair pairs[3];

    for (int i = 0; i < 3; i++) {
        pairs[i] = pair_open(&gate, priorities);
        gnutls_credentials_set(pairs[i].client, GNUTLS_CRD_CERTIFICATE, certified_credentials);
    }
    tls_gate_open(&gate);
    for (int run = 0; run < TURNS_MAX; run++)
        for (int i = 0; i < 3; i++)
            shake_hands(&pairs[i]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pairs[i].server_is_done, i < 2);
        shake_hands_alone(&gate, &pairs[i]);
        pair_close(&pairs[i]);
    }
}

/* A handshake counts once in a turn, however many messages of it come in that turn. */
static void a_client_counts_once_a_turn(void **state)
{
    (void)state;
    expect_two_clients_a_turn("NORMAL:-VERS-ALL:+VERS-TLS1.3");
    expect_two_clients_a_turn("NORMAL:-VERS-ALL:+VERS-TLS1.2");
}

/* Neither works the server for a client that was cut off, nor does this one wait for its turn,
 * for it keeps its place as long. */
static void nothing_for_a_connection_that_was_ended(void **state)
{
    struct tls_gate gate = {.metrics = &metrics};
    struct pair pair = pair_open(&gate, "NORMAL");

    (void)state;
    assert_int_equal(gnutls_handshake(pair.client), GNUTLS_E_AGAIN);
    gate.costly = 2;
    assert_int_equal(gnutls_handshake(pair.server), GNUTLS_E_AGAIN);
    assert_true(gate.is_holding);
    tls_conn_end(pair.conn);
    assert_true(gnutls_error_is_fatal(gnutls_handshake(pair.server)));
    pair_close(&pair);

    pair = pair_open(&gate, "NORMAL");
    assert_int_equal(gnutls_handshake(pair.client), GNUTLS_E_AGAIN);
    tls_gate_open(&gate);
    tls_conn_end(pair.conn);
    assert_true(gnutls_error_is_fatal(gnutls_handshake(pair.server)));
    assert_int_equal(gate.costly, 0);
    pair_close(&pair);
}

/* The hello of such a client is still to be read, so that recv() does not tell. */
static void clients_that_left_are_seen(void **state)
{
    struct tls_gate gate = {.metrics = &metrics, .costly = 2};
    struct pair pair = pair_open(&gate, "NORMAL");

    (void)state;
    assert_false(tls_conn_has_left(NULL));
    assert_int_equal(gnutls_handshake(pair.client), GNUTLS_E_AGAIN);
    assert_int_equal(gnutls_handshake(pair.server), GNUTLS_E_AGAIN);
    assert_true(gate.is_holding);
    assert_false(tls_conn_has_left(pair.conn));
    shutdown(pair.fds[0], SHUT_WR);
    assert_true(tls_conn_has_left(pair.conn));
    pair_close(&pair);

    /* Behind the handshake there may be a whole request, which has its answer. */
    pair = pair_open(&gate, "NORMAL");
    shake_hands_alone(&gate, &pair);
    assert_int_equal(gnutls_record_send(pair.client, "GET /", 5), 5);
    shutdown(pair.fds[0], SHUT_WR);
    assert_false(tls_conn_has_left(pair.conn));
    pair_close(&pair);
}

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
    struct tls_gate gate = {.metrics = &metrics};
    char priorities[128];

    (void)state;
    retries = 0;
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        snprintf(priorities, sizeof(priorities),
                 "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:+GROUP-%s", groups[i]);
        struct pair pair = pair_open_with(&gate, GNUTLS_KEY_SHARE_TOP, priorities);
        gnutls_handshake_set_hook_function(pair.client, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_POST,
                                           on_client_message);
        shake_hands_alone(&gate, &pair);
        pair_close(&pair);
    }
    assert_int_equal(retries, 0);
}

/* Established sessions read on, whatever handshakes come. */
static void handshakes_hold_nobody_else(void **state)
{
    struct tls_gate gate = {.metrics = &metrics};
    struct pair old = pair_open(&gate, "NORMAL"), pairs[COUNT];
    char bytes[16];

    (void)state;
    shake_hands_alone(&gate, &old);
    tls_gate_open(&gate);
    for (int i = 0; i < COUNT; i++) {
        pairs[i] = pair_open(&gate, "NORMAL");
        shake_hands(&pairs[i]);
    }
    assert_int_equal(gnutls_record_send(old.client, "GET /", 5), 5);
    assert_int_equal(gnutls_record_recv(old.server, bytes, sizeof(bytes)), 5);
    for (int i = 0; i < COUNT; i++)
        pair_close(&pairs[i]);
    assert_int_equal(gate.under_way, 0);
    pair_close(&old);
}

static void expect_goodbye_alone(const char *priorities)
{
    struct tls_gate gate = {.metrics = &metrics};
    struct pair pair = pair_open(&gate, priorities);
    char bytes[16];

    shake_hands_alone(&gate, &pair);
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
    pair_close(&pair);
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
    struct tls_gate gate = {.metrics = &metrics};
    struct pair pair = pair_open(&gate, "NORMAL");

    (void)state;
    assert_false(shake_hands(&pair));
    reload(10);
    size_t before = mallinfo2().uordblks;
    reload(RELOADS);
#ifndef SANITIZED
    assert_true(mallinfo2().uordblks < before + RELOADS_GROWTH_MAX);
#endif
    (void)before;
    shake_hands_alone(&gate, &pair);
    pair_close(&pair);
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
        cmocka_unit_test(two_handshakes_a_turn),
        cmocka_unit_test(two_handshakes_a_turn_after_a_retry),
        cmocka_unit_test(two_key_exchanges_a_turn),
        cmocka_unit_test_setup_teardown(two_wrong_signatures_a_turn, ask_for_certificates,
                                        ask_for_nothing),
        cmocka_unit_test_setup_teardown(no_signature_of_a_stranger_is_checked,
                                        ask_for_certificates, ask_for_nothing),
        cmocka_unit_test(two_old_hellos_a_turn),
        cmocka_unit_test(a_client_counts_once_a_turn),
        cmocka_unit_test_setup_teardown(a_client_counts_once_a_turn, ask_for_certificates,
                                        ask_for_nothing),
        cmocka_unit_test(nothing_for_a_connection_that_was_ended),
        cmocka_unit_test(clients_that_left_are_seen),
        cmocka_unit_test(common_clients_need_no_retry),
        cmocka_unit_test(handshakes_hold_nobody_else),
        cmocka_unit_test(only_an_end_is_an_end),
        cmocka_unit_test(old_certificates_go),
        cmocka_unit_test(only_forward_secrecy_and_aead),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
