/* storage/redis/tls_session.c: against a server of GnuTLS that takes its time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "storage/redis/tls_session.h"
#include "storage/redis/url.h"
#include "tests/unit/certificate.h"

#define NAME CERTIFICATE_NAME

enum { PATIENCE_MS = 20000, SENT_LEN = 6 * 1000 * 1000, ANSWER_LEN = 4 * 1000 * 1000 };

/* --- the server -----------------------------------------------------------------------------
 */

/* What stands at `i` of everything that is sent. */
static char byte_at(size_t i)
{
    return (char)(i * 31 + i / 251);
}

struct server {
    const char *priorities;
    int fd;
    bool cuts; /* ends without a close_notify */
    bool shook_hands;
    size_t good; /* bytes that came as they were sent */
    pthread_t thread;
};

static void serve_bytes(struct server *server, gnutls_session_t session)
{
    static char bytes[10000];
    ssize_t n = 1;

    usleep(200 * 1000); /* the client fills the socket meanwhile */
    while (server->good < SENT_LEN && n > 0) {
        n = gnutls_record_recv(session, bytes, sizeof(bytes));
        for (ssize_t i = 0; i < n && bytes[i] == byte_at(server->good); i++)
            server->good++;
    }
    for (size_t sent = 0; sent < ANSWER_LEN && n > 0; sent += (size_t)n) {
        size_t len = 1 + sent % sizeof(bytes);
        len = len < ANSWER_LEN - sent ? len : ANSWER_LEN - sent;
        for (size_t i = 0; i < len; i++)
            bytes[i] = byte_at(sent + i);
        n = gnutls_record_send(session, bytes, len);
    }
}

static void *serve(void *arg)
{
    struct server *server = arg;
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;

    gnutls_certificate_allocate_credentials(&credentials);
    gnutls_certificate_set_x509_key_file(credentials, certificate_path, certificate_key_path,
                                         GNUTLS_X509_FMT_PEM);
    gnutls_init(&session, GNUTLS_SERVER | GNUTLS_NO_SIGNAL);
    gnutls_priority_set_direct(session, server->priorities, NULL);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_transport_set_int(session, server->fd);
    server->shook_hands = gnutls_handshake(session) == 0;
    if (server->shook_hands) {
        serve_bytes(server, session);
        if (!server->cuts)
            gnutls_bye(session, GNUTLS_SHUT_WR);
    }
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    close(server->fd);
    return NULL;
}

/* --- the client -----------------------------------------------------------------------------
 */

struct client {
    struct redis_trust *trust;
    struct tls_session *session;
    int fd;
};

static struct client meet(struct server *server, const char *server_name)
{
    const struct redis_tls_files files = {.ca = certificate_path};
    struct client client;
    char error[200];
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    server->fd = fds[1];
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    client.trust = redis_trust_load(&files, error, sizeof(error));
    assert_non_null(client.trust);
    client.fd = fds[0];
    client.session = tls_session_new(client.fd, client.trust, server_name);
    assert_non_null(client.session);
    return client;
}

static void part(struct client *client, struct server *server)
{
    tls_session_free(client->session);
    pthread_join(server->thread, NULL);
}

static void wait_for(const struct client *client, short events)
{
    struct pollfd fd = {.fd = client->fd, .events = events};

    assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
}

static enum tls_progress handshake(struct client *client)
{
    for (;;) {
        enum tls_progress progress = tls_session_handshake(client->session);
        if (progress == TLS_DONE || progress == TLS_FAILED) {
            redis_trust_free(client->trust); /* not needed any more */
            return progress;
        }
        wait_for(client, progress == TLS_WAITS_TO_READ ? POLLIN : POLLOUT);
    }
}

static void send_all(struct client *client)
{
    char *bytes = malloc(SENT_LEN);
    size_t sent = 0, pieces = 0, stops = 0;

    assert_non_null(bytes);
    for (size_t i = 0; i < SENT_LEN; i++)
        bytes[i] = byte_at(i);
    while (sent < SENT_LEN) {
        ssize_t n = tls_session_send(client->session, bytes + sent, SENT_LEN - sent);
        assert_true(n >= 0);
        sent += (size_t)n;
        pieces++;
        if (n > 0)
            continue;
        stops++;
        wait_for(client, POLLOUT);
    }
    free(bytes);
    assert_true(stops > 0); /* the socket was full */
}

/* How many bytes came as they were sent; the connection is over then. */
static size_t receive_all(struct client *client)
{
    static char bytes[16384];
    size_t good = 0;
    ssize_t n;

    while ((n = tls_session_receive(client->session, bytes, sizeof(bytes))) >= 0) {
        for (ssize_t i = 0; i < n && bytes[i] == byte_at(good); i++)
            good++;
        if (n == 0 && !tls_session_has_unread(client->session))
            wait_for(client, POLLIN);
    }
    return good;
}

/* --- tests ----------------------------------------------------------------------------------
 */

static void expect_all_to_arrive(const char *priorities, bool cuts)
{
    struct server server = {.priorities = priorities, .cuts = cuts};
    struct client client = meet(&server, NAME);

    assert_int_equal(handshake(&client), TLS_DONE);
    send_all(&client);
    assert_int_equal(receive_all(&client), ANSWER_LEN);
    assert_string_equal(tls_session_fault(client.session), "the connection was lost");
    part(&client, &server);
    assert_int_equal(server.good, SENT_LEN);
}

static void everything_arrives(void **state)
{
    (void)state;
    certificate_write(1, NULL);
    expect_all_to_arrive("NORMAL:-VERS-ALL:+VERS-TLS1.3", false);
    expect_all_to_arrive("NORMAL:-VERS-ALL:+VERS-TLS1.3", true);
    expect_all_to_arrive("NORMAL:-VERS-ALL:+VERS-TLS1.2", false);
    expect_all_to_arrive("NORMAL:-VERS-ALL:+VERS-TLS1.2", true);
    certificate_remove();
}

static void expect_fault(const char *priorities, const char *name, const char *word)
{
    struct server server = {.priorities = priorities};
    struct client client = meet(&server, name);

    assert_int_equal(handshake(&client), TLS_FAILED);
    if (strstr(tls_session_fault(client.session), word) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", tls_session_fault(client.session), word);
    part(&client, &server);
    assert_int_equal(server.good, 0);
}

static void faults_are_named(void **state)
{
    (void)state;
    certificate_write(1, NULL);
    expect_fault("NORMAL", "other.test", "for another name");
    expect_fault("NORMAL", "127.0.0.1", "for another name");
    expect_fault("NORMAL:-VERS-ALL:+VERS-TLS1.1", NAME, "TLS handshake failed: ");
    certificate_remove();
    certificate_write(-1, NULL);
    expect_fault("NORMAL", NAME, "has expired");
    certificate_remove();
}

/* An authority may give certificates to clients, too: none of them speaks for Redis. */
static void a_certificate_of_a_client_is_refused(void **state)
{
    (void)state;
    certificate_write(1, GNUTLS_KP_TLS_WWW_CLIENT);
    expect_fault("NORMAL:-VERS-ALL:+VERS-TLS1.3", NAME, "is not one for servers");
    expect_fault("NORMAL:-VERS-ALL:+VERS-TLS1.2", NAME, "is not one for servers");
    certificate_remove();
    certificate_write(1, GNUTLS_KP_TLS_WWW_SERVER);
    expect_all_to_arrive("NORMAL", false);
    certificate_remove();
}

static void plain_answers_are_named(void **state)
{
    struct server server = {.priorities = "NORMAL"};
    struct client client;
    int fds[2];

    (void)state;
    certificate_write(1, NULL);
    client = meet(&server, NAME);
    part(&client, &server);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    client.fd = fds[0];
    client.session = tls_session_new(fds[0], client.trust, NAME);
    assert_int_equal(write(fds[1], "-ERR unknown command\r\n", 22), 22);
    assert_int_equal(handshake(&client), TLS_FAILED);
    assert_non_null(strstr(tls_session_fault(client.session), "does not speak TLS"));
    tls_session_free(client.session);
    close(fds[1]);
    certificate_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives),
        cmocka_unit_test(faults_are_named),
        cmocka_unit_test(a_certificate_of_a_client_is_refused),
        cmocka_unit_test(plain_answers_are_named),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
