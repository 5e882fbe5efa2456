/* server/tls/tls_conn.c: how many handshakes of clients of GnuTLS go on in one turn. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <gnutls/gnutls.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/certificate.h"
#include "tests/unit/tls_pair.h"

enum { COUNT = 6 };

/* To how many clients has the server answered anything? */
static int answered(const struct tls_pair *pairs)
{
    int count = 0;

    for (int i = 0; i < COUNT; i++)
        count += tls_pair_unread(pairs[i].fds[0]) > 0;
    return count;
}

static void two_handshakes_a_turn(void **state)
{
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair pairs[COUNT];
    int done = 0;

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        pairs[i] = tls_pair_open(&gate, "NORMAL");
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
        assert_true(turn < TLS_PAIR_TURNS_MAX);
        tls_gate_open(&gate);
        done = 0;
        for (int i = 0; i < COUNT; i++)
            done += tls_pair_shake_hands(&pairs[i]);
    }
    assert_int_equal(gate.under_way, 0);
    for (int i = 0; i < COUNT; i++)
        tls_pair_close(&pairs[i]);
}

/* All clients together, after their first messages have been answered, each in a turn of its
 * own: how many servers answer the next ones in one turn? */
static int answered_at_once(unsigned flags, const char *priorities)
{
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair pairs[COUNT];

    for (int i = 0; i < COUNT; i++) {
        pairs[i] = tls_pair_open_with(&gate, flags, priorities);
        tls_gate_open(&gate);
        tls_pair_shake_hands(&pairs[i]);
        assert_true(tls_pair_unread(pairs[i].fds[0]) > 0);
    }
    for (int i = 0; i < COUNT; i++) {
        tls_pair_go_on(pairs[i].client, &pairs[i].client_is_done);
        assert_int_equal(tls_pair_unread(pairs[i].fds[0]), 0);
    }
    tls_gate_open(&gate);
    for (int i = 0; i < COUNT; i++)
        tls_pair_go_on(pairs[i].server, &pairs[i].server_is_done);
    int count = answered(pairs);
    for (int i = 0; i < COUNT; i++) {
        tls_pair_shake_hands_alone(&gate, &pairs[i]);
        tls_pair_close(&pairs[i]);
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
    tls_pair_start(certificate_path);
    return 0;
}

static int ask_for_nothing(void **state)
{
    (void)state;
    tls_stop();
    tls_pair_start("");
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
static struct tls_pair pair_open_with_wrong_signature(struct tls_gate *gate,
                                                      const char *priorities)
{
    struct tls_pair pair = tls_pair_open(gate, priorities);

    gnutls_credentials_set(pair.client, GNUTLS_CRD_CERTIFICATE, tls_pair_certified);
    gnutls_handshake_set_hook_function(pair.client, GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY,
                                       GNUTLS_HOOK_PRE, spoil_signature);
    tls_gate_open(gate);
    tls_pair_shake_hands(&pair);
    tls_pair_go_on(pair.client, &pair.client_is_done);
    tls_gate_open(gate);
    return pair;
}

/* Of all clients together, how many signatures does the server check in one turn? */
static int refused_at_once(const char *priorities)
{
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair pairs[COUNT];
    int count = 0;

    for (int i = 0; i < COUNT; i++)
        pairs[i] = pair_open_with_wrong_signature(&gate, priorities);
    for (int i = 0; i < COUNT; i++)
        count += gnutls_error_is_fatal(gnutls_handshake(pairs[i].server));
    for (int i = 0; i < COUNT; i++)
        tls_pair_close(&pairs[i]);
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
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair pair = pair_open_with_wrong_signature(&gate,
                                                          "NORMAL:-VERS-ALL:+VERS-TLS1.3");

    (void)state;
    assert_int_equal(gnutls_handshake(pair.server), GNUTLS_E_PK_SIG_VERIFY_FAILED);
    tls_pair_close(&pair);
    pair = pair_open_with_wrong_signature(&gate, "NORMAL:-VERS-ALL:+VERS-TLS1.3");
    /* They have no authority, so that every client is a stranger. */
    gnutls_credentials_set(pair.server, GNUTLS_CRD_CERTIFICATE, tls_pair_client);
    assert_int_equal(gnutls_handshake(pair.server), GNUTLS_E_CERTIFICATE_ERROR);
    tls_pair_close(&pair);
}

/* Hellos of SSL 2.0 may offer TLS 1.2: RFC 5246 §E.2. */
static void two_old_hellos_a_turn(void **state)
{
    static const unsigned char hello[] =
        "\x80\x2f\1\3\3\0\6\0\0\0\x20"      /* client hello, TLS 1.2 */
        "\0\xc0\x2b\0\0\xff"                /* ECDHE-ECDSA-AES128-GCM-SHA256, RFC 5746 */
        "0123456789abcdef0123456789abcdef"; /* random */
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair pairs[COUNT];

    (void)state;
    tls_gate_open(&gate);
    for (int i = 0; i < COUNT; i++) {
        pairs[i] = tls_pair_open(&gate, "NORMAL");
        assert_int_equal(write(pairs[i].fds[0], hello, sizeof(hello) - 1), sizeof(hello) - 1);
        assert_int_equal(gnutls_handshake(pairs[i].server), GNUTLS_E_AGAIN);
    }
    assert_int_equal(answered(pairs), 2);
    for (int i = 0; i < COUNT; i++)
        tls_pair_close(&pairs[i]);
}

/* Two clients get through their handshakes in one turn, the third one waits. */
static void expect_two_clients_a_turn(const char *priorities)
{
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair pairs[3];

    for (int i = 0; i < 3; i++) {
        pairs[i] = tls_pair_open(&gate, priorities);
        gnutls_credentials_set(pairs[i].client, GNUTLS_CRD_CERTIFICATE, tls_pair_certified);
    }
    tls_gate_open(&gate);
    for (int run = 0; run < TLS_PAIR_TURNS_MAX; run++)
        for (int i = 0; i < 3; i++)
            tls_pair_shake_hands(&pairs[i]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pairs[i].server_is_done, i < 2);
        tls_pair_shake_hands_alone(&gate, &pairs[i]);
        tls_pair_close(&pairs[i]);
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
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair pair = tls_pair_open(&gate, "NORMAL");

    (void)state;
    assert_int_equal(gnutls_handshake(pair.client), GNUTLS_E_AGAIN);
    gate.costly = 2;
    assert_int_equal(gnutls_handshake(pair.server), GNUTLS_E_AGAIN);
    assert_true(gate.is_holding);
    tls_conn_end(pair.conn);
    assert_true(gnutls_error_is_fatal(gnutls_handshake(pair.server)));
    tls_pair_close(&pair);

    pair = tls_pair_open(&gate, "NORMAL");
    assert_int_equal(gnutls_handshake(pair.client), GNUTLS_E_AGAIN);
    tls_gate_open(&gate);
    tls_conn_end(pair.conn);
    assert_true(gnutls_error_is_fatal(gnutls_handshake(pair.server)));
    assert_int_equal(gate.costly, 0);
    tls_pair_close(&pair);
}

/* The hello of such a client is still to be read, so that recv() does not tell. */
static void clients_that_left_are_seen(void **state)
{
    struct tls_gate gate = {.metrics = &tls_pair_metrics, .costly = 2};
    struct tls_pair pair = tls_pair_open(&gate, "NORMAL");

    (void)state;
    assert_false(tls_conn_has_left(NULL));
    assert_int_equal(gnutls_handshake(pair.client), GNUTLS_E_AGAIN);
    assert_int_equal(gnutls_handshake(pair.server), GNUTLS_E_AGAIN);
    assert_true(gate.is_holding);
    assert_false(tls_conn_has_left(pair.conn));
    shutdown(pair.fds[0], SHUT_WR);
    assert_true(tls_conn_has_left(pair.conn));
    tls_pair_close(&pair);

    /* Behind the handshake there may be a whole request, which has its answer. */
    pair = tls_pair_open(&gate, "NORMAL");
    tls_pair_shake_hands_alone(&gate, &pair);
    assert_int_equal(gnutls_record_send(pair.client, "GET /", 5), 5);
    shutdown(pair.fds[0], SHUT_WR);
    assert_false(tls_conn_has_left(pair.conn));
    tls_pair_close(&pair);
}

/* Established sessions read on, whatever handshakes come. */
static void handshakes_hold_nobody_else(void **state)
{
    struct tls_gate gate = {.metrics = &tls_pair_metrics};
    struct tls_pair old = tls_pair_open(&gate, "NORMAL"), pairs[COUNT];
    char bytes[16];

    (void)state;
    tls_pair_shake_hands_alone(&gate, &old);
    tls_gate_open(&gate);
    for (int i = 0; i < COUNT; i++) {
        pairs[i] = tls_pair_open(&gate, "NORMAL");
        tls_pair_shake_hands(&pairs[i]);
    }
    assert_int_equal(gnutls_record_send(old.client, "GET /", 5), 5);
    assert_int_equal(gnutls_record_recv(old.server, bytes, sizeof(bytes)), 5);
    for (int i = 0; i < COUNT; i++)
        tls_pair_close(&pairs[i]);
    assert_int_equal(gate.under_way, 0);
    tls_pair_close(&old);
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
        cmocka_unit_test(handshakes_hold_nobody_else),
    };

    return cmocka_run_group_tests(tests, tls_pair_set_up, tls_pair_tear_down);
}
