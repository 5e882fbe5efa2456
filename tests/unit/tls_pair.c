/* The pairs of tests of server/tls. */
#include "tests/unit/tls_pair.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <gnutls/abstract.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/certificate.h"

struct metrics tls_pair_metrics;
gnutls_certificate_credentials_t tls_pair_server, tls_pair_client, tls_pair_certified;

void tls_pair_start(const char *client_authorities)
{
    char error[256];

    assert_true(tls_start(certificate_path, certificate_key_path, client_authorities, error,
                          sizeof(error)));
}

int tls_pair_set_up(void **state)
{
    (void)state;
    certificate_write(1, NULL);
    assert_int_equal(metrics_init(&tls_pair_metrics, 0), 0);
    tls_pair_start("");
    gnutls_certificate_allocate_credentials(&tls_pair_client);
    gnutls_certificate_allocate_credentials(&tls_pair_certified);
    gnutls_certificate_set_x509_key_file(tls_pair_certified, certificate_path,
                                         certificate_key_path, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_allocate_credentials(&tls_pair_server);
    gnutls_certificate_set_x509_trust_file(tls_pair_server, certificate_path,
                                           GNUTLS_X509_FMT_PEM);
    gnutls_certificate_set_retrieve_function2(
        tls_pair_server, (gnutls_certificate_retrieve_function2 *)tls_certificate_callback());
    return 0;
}

int tls_pair_tear_down(void **state)
{
    (void)state;
    gnutls_certificate_free_credentials(tls_pair_client);
    gnutls_certificate_free_credentials(tls_pair_certified);
    gnutls_certificate_free_credentials(tls_pair_server);
    tls_stop();
    metrics_release(&tls_pair_metrics);
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

struct tls_pair tls_pair_open_with(struct tls_gate *gate, unsigned flags,
                                   const char *priorities)
{
    struct tls_pair pair = {.conn = NULL};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.fds), 0);
    pair.client = new_session(GNUTLS_CLIENT | flags, priorities, tls_pair_client, pair.fds[0]);
    pair.server = new_session(GNUTLS_SERVER, TLS_PRIORITIES, tls_pair_server, pair.fds[1]);
    pair.conn = tls_conn_new(gate, pair.server, pair.fds[1]);
    return pair;
}

struct tls_pair tls_pair_open(struct tls_gate *gate, const char *priorities)
{
    return tls_pair_open_with(gate, 0, priorities);
}

void tls_pair_close(struct tls_pair *pair)
{
    tls_conn_free(pair->conn);
    gnutls_deinit(pair->client);
    gnutls_deinit(pair->server);
    close(pair->fds[0]);
    close(pair->fds[1]);
}

void tls_pair_go_on(gnutls_session_t session, bool *is_done)
{
    if (*is_done)
        return;
    int code = gnutls_handshake(session);
    if (code < 0 && gnutls_error_is_fatal(code))
        fail_msg("%s", gnutls_strerror(code));
    *is_done = code == 0;
}

bool tls_pair_shake_hands(struct tls_pair *pair)
{
    tls_pair_go_on(pair->client, &pair->client_is_done);
    tls_pair_go_on(pair->server, &pair->server_is_done);
    return pair->client_is_done && pair->server_is_done;
}

void tls_pair_shake_hands_alone(struct tls_gate *gate, struct tls_pair *pair)
{
    for (int turn = 0; !tls_pair_shake_hands(pair); turn++) {
        assert_true(turn < TLS_PAIR_TURNS_MAX);
        tls_gate_open(gate);
    }
}

int tls_pair_unread(int fd)
{
    int len = 0;

    ioctl(fd, FIONREAD, &len);
    return len;
}
