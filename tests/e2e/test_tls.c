/* The TLS listener, as curl and openssl see it: versions, clients' certificates, new
 * certificates while the server runs, hang-ups of those that wait. */
#include "harness.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOON_MS = 5000 };

static struct front *front_with_tls(struct world *w, const char *client_ca)
{
    struct front *fe;

    authority_make(w, "ca");
    certificate_make(w, "first", "ca", "IP:127.0.0.1");
    certificate_use(w, "first", "live");
    fe = front_launch(w, "--redis", w->redis->url, "--tls-cert", text(w, "%s/live.pem", w->dir),
                      "--tls-key", text(w, "%s/live.key", w->dir), "--tls-client-ca",
                      client_ca ? text(w, "%s/%s", w->dir, client_ca) : "", NULL);
    /* Not ready as the harness asks, without TLS. */
    shell_run(w, NULL,
              text(w,
                   "curl -sf --cacert ca.pem --retry 20 --retry-delay 1 --retry-all-errors "
                   "%s https://127.0.0.1:%d/readyz",
                   client_ca ? "--cert first.pem --key first.key" : "", fe->port));
    return fe;
}

static const char *curl(struct front *fe, int *code, const char *flags, const char *path)
{
    return shell_run(fe->world, code,
                     text(fe->world, "curl -s --cacert ca.pem %s 'https://127.0.0.1:%d%s'",
                          flags, fe->port, path));
}

static const char *subject(struct front *fe)
{
    return shell_run(
        fe->world, NULL,
        text(fe->world,
             "sh -c 'openssl s_client -connect 127.0.0.1:%d -CAfile ca.pem < /dev/null "
             "2> /dev/null | grep ^subject'",
             fe->port));
}

static void test_versions(struct world *w)
{
    struct front *fe = front_with_tls(w, NULL);
    int code;

    assert_non_null(strstr(curl(fe, NULL, "--tls-max 1.2", "/version"), "rlockd"));
    assert_non_null(strstr(curl(fe, NULL, "--tlsv1.3", "/version"), "rlockd"));
    curl(fe, &code, "--tls-max 1.1", "/version");
    assert_int_not_equal(code, 0);
    shell_run(w, &code, text(w, "curl -s http://127.0.0.1:%d/version", fe->port));
    assert_int_not_equal(code, 0);
    /* Large answers and bodies go through, several on one connection. */
    assert_true(strlen(curl(fe, NULL, "", "/openapi.yaml")) > 50000);
    assert_non_null(
        strstr(curl(fe, NULL,
                    text(w, "-X POST -H 'Content-Type: application/json' -d '{}%15000s'", ""),
                    "/v1/locks/tls"),
               "held"));
    assert_non_null(
        strstr(shell_run(w, NULL,
                         text(w,
                              "curl -s --cacert ca.pem https://127.0.0.1:%d/version "
                              "https://127.0.0.1:%d/livez",
                              fe->port, fe->port)),
               "alive"));
}

static bool has_logged(struct front *fe, const char *msg)
{
    json_t *line = front_log_find(fe, msg);
    bool is_there = line != NULL;

    json_decref(line);
    return is_there;
}

static void test_clients_need_certificates(struct world *w)
{
    struct front *fe = front_with_tls(w, "ca.pem");
    static const char *const versions[] = {"--tls-max 1.2", "--tlsv1.3"};
    int code;

    certificate_make(w, "client", "ca", "IP:127.0.0.1");
    authority_make(w, "stranger");
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        const char *good = text(w, "%s --cert client.pem --key client.key", versions[i]);
        const char *bad = text(w, "%s --cert stranger.pem --key stranger.key", versions[i]);

        assert_non_null(strstr(curl(fe, NULL, good, "/version"), "rlockd"));
        assert_string_equal(curl(fe, &code, versions[i], "/version"), "");
        assert_int_not_equal(code, 0);
        assert_string_equal(curl(fe, &code, bad, "/version"), "");
        assert_int_not_equal(code, 0);
    }
}

/* The words of openssl on the alert that it got, or an empty text. It reads until rlockd has
 * closed the connection: in TLS 1.3 the alert comes after the handshake. */
static const char *alert(struct front *fe, const char *flags, const char *version)
{
    return shell_run(
        fe->world, NULL,
        text(fe->world,
             "sh -c 'openssl s_client -ign_eof -connect 127.0.0.1:%d -CAfile ca.pem "
             "-cipher DEFAULT:@SECLEVEL=0 -%s %s 2>&1 < /dev/null | "
             "grep -o \"alert .*:SSL\" || true'",
             fe->port, version, flags));
}

/* A certificate is one for clients, or names no purpose, and its key is a strong one. Refused
 * clients are told why, and so is the operator. */
static void test_checks_of_client_certificates(struct world *w)
{
    static const struct {
        const char *name, *key, *purpose, *alert;
    } rows[] = {
        {"plain", "ec -pkeyopt ec_paramgen_curve:prime256v1", NULL, NULL},
        {"client", "rsa:2048", "clientAuth", NULL},
        {"both", "rsa:2048", "serverAuth,clientAuth", NULL},
        {"server", "rsa:2048", "serverAuth", "unsupported certificate"},
        {"weak", "rsa:1024", "clientAuth", "bad certificate"},
    };
    static const char *const versions[] = {"tls1_2", "tls1_3"};
    struct front *fe = front_with_tls(w, "ca.pem");
    int code;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *name = rows[i].name;

        certificate_make_as(w, name, "ca", "IP:127.0.0.1", rows[i].key, rows[i].purpose);
        if (rows[i].alert == NULL) {
            curl(fe, &code, text(w, "--cert %s.pem --key %s.key", name, name), "/version");
            assert_int_equal(code, 0);
            continue;
        }
        for (size_t k = 0; k < COUNT_OF(versions); k++) {
            const char *words = alert(fe, text(w, "-cert %s.pem -key %s.key", name, name),
                                      versions[k]);
            if (strstr(words, rows[i].alert) == NULL)
                FAIL("%s, %s: %s", name, versions[k], words);
        }
    }
    assert_non_null(strstr(alert(fe, "", "tls1_3"), "certificate required"));
    wait_until(has_logged(fe, "client certificate refused"), SOON_MS);
    const char *page = curl(fe, NULL, "--cert client.pem --key client.key", "/metrics");
    /* Of two clients in two versions of TLS, and of the client without a certificate. */
    assert_non_null(strstr(page, "\nrlockd_refused_certificates_total 5\n"));
}

/* Does every thread of rlockd sleep? */
static bool sleeps(struct front *fe)
{
    const char *states = shell_run(
        fe->world, NULL,
        text(fe->world, "sh -c 'cat /proc/%d/task/*/stat | grep -vc \") S \" || true'",
             child_pid(fe->child)));

    return atoi(states) == 0;
}

/* A client that begins a handshake and says no more costs the server no time. */
static void test_half_a_handshake(struct world *w)
{
    struct front *fe = front_with_tls(w, NULL);

    raw_send(raw_open(fe), "\x16\x03\x01", 3);
    assert_non_null(strstr(curl(fe, NULL, "", "/version"), "rlockd"));
    for (int i = 0; i < 3; i++)
        wait_until(sleeps(fe), SOON_MS);
    assert_non_null(strstr(curl(fe, NULL, "", "/metrics"),
                           "rlockd_http_cut_off_total{reason=\"silent\"} 0\n"));
}

static void test_new_certificates(struct world *w)
{
    struct front *fe = front_with_tls(w, NULL);

    assert_non_null(strstr(subject(fe), "first"));
    certificate_make(w, "second", "ca", "IP:127.0.0.1");
    certificate_use(w, "second", "live");
    assert_non_null(strstr(subject(fe), "first"));
    child_signal(fe->child, SIGHUP);
    wait_until(has_logged(fe, "certificate reloaded"), SOON_MS);
    assert_non_null(strstr(subject(fe), "second"));
    /* A mistake changes nothing. */
    shell_run(w, NULL, "cp first.key live.key");
    child_signal(fe->child, SIGHUP);
    wait_until(has_logged(fe, "certificate not reloaded"), SOON_MS);
    assert_non_null(strstr(subject(fe), "second"));
    assert_non_null(strstr(curl(fe, NULL, "", "/version"), "rlockd"));
}

static void test_hang_ups_are_seen(struct world *w)
{
    struct front *fe = front_with_tls(w, NULL);
    const char *holder = token_new(w);

    expect_status(lock_put(w->a, "tls-wait", holder, "ttl_ms=60000"), 201);
    const char *const argv[] = {
        "/usr/bin/curl",
        "-sk",
        "-X",
        "POST",
        text(w, "https://127.0.0.1:%d/v1/locks/tls-wait?wait_ms=50000", fe->port),
        NULL};
    struct child *waiter = child_start(w, "curl", argv, NULL);
    wait_until(waiter_count(w->a, "tls-wait") == 1, SOON_MS);
    child_signal(waiter, SIGKILL);
    wait_until(waiter_count(w->a, "tls-wait") == 0, SOON_MS);
    waiter = child_start(w, "curl", argv, NULL);
    wait_until(waiter_count(w->a, "tls-wait") == 1, SOON_MS);
    expect_status(lock_release(w->a, "tls-wait", holder), 200);
    assert_int_equal(child_wait(waiter, SOON_MS), 0);
    assert_non_null(strstr(child_stdout(waiter), "held"));
}

/* The client in goodbye.py goes on when there is a file of this name. */
static void tell(struct world *w, const char *name)
{
    FILE *file = fopen(text(w, "%s/%s", w->dir, name), "we");

    assert_non_null(file);
    fclose(file);
}

/* A client that ends TLS, and leaves the TCP connection open. */
static void test_goodbyes_are_seen(struct world *w)
{
    static const char script[] =
        "import os,socket,ssl,sys,time\n"
        "c=ssl.create_default_context(cafile='ca.pem')\n"
        "c.maximum_version=ssl.TLSVersion[sys.argv[2]]\n"
        "s=c.wrap_socket(socket.create_connection(('127.0.0.1',int(sys.argv[1]))),\n"
        "                server_hostname='127.0.0.1')\n"
        "s.sendall(b'POST /v1/locks/tls-bye?wait_ms=50000 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
        "while not os.path.exists(sys.argv[3]): time.sleep(0.05)\n"
        "s.settimeout(0.1)\n"
        "if sys.argv[3]=='next': s.sendall(b'GET /livez HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
        "else:\n"
        "    try: s.unwrap()\n"
        "    except OSError: pass\n"
        "time.sleep(60)\n";
    static const char *const versions[] = {"TLSv1_2", "TLSv1_3"};
    struct front *fe = front_with_tls(w, NULL);
    const char *path = text(w, "%s/goodbye.py", w->dir), *port = text(w, "%d", fe->port);
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(script, file);
    fclose(file);
    expect_status(lock_put(w->a, "tls-bye", token_new(w), "ttl_ms=600000"), 201);
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        const char *bye = text(w, "bye-%zu", i);
        const char *command = text(w, "cd %s && exec python3 goodbye.py %s %s %s", w->dir, port,
                                   versions[i], bye);
        const char *const argv[] = {"/bin/sh", "-c", command, NULL};
        struct child *client = child_start(w, "python3", argv, NULL);
        wait_until(waiter_count(w->a, "tls-bye") == 1, SOON_MS);
        tell(w, bye);
        wait_until(waiter_count(w->a, "tls-bye") == 0, SOON_MS);
        child_signal(client, SIGKILL);
    }
    /* A request behind the one that waits is no goodbye. */
    const char *command = text(w, "cd %s && exec python3 goodbye.py %s TLSv1_3 next", w->dir,
                               port);
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    struct child *client = child_start(w, "python3", argv, NULL);
    wait_until(waiter_count(w->a, "tls-bye") == 1, SOON_MS);
    tell(w, "next");
    stays_true(waiter_count(w->a, "tls-bye") == 1, 1500);
    child_signal(client, SIGKILL);
    wait_until(waiter_count(w->a, "tls-bye") == 0, SOON_MS);
}

static void test_wrong_settings(struct world *w)
{
    const char *cert = text(w, "%s/first.pem", w->dir), *key = text(w, "%s/first.key", w->dir);
    const char *other = text(w, "%s/other.key", w->dir);

    authority_make(w, "first");
    authority_make(w, "other");
    const struct {
        const char *args[7], *error;
    } rows[] = {
        {{"--tls-cert", cert}, "--tls-key"},
        {{"--tls-key", key}, "--tls-cert"},
        {{"--tls-client-ca", cert}, "--tls-cert"},
        {{"--tls-cert", "/nothing", "--tls-key", key}, "/nothing: No such file or directory"},
        {{"--tls-cert", cert, "--tls-key", "/nothing"}, "/nothing: No such file or directory"},
        {{"--tls-cert", key, "--tls-key", key}, "--tls-cert"},
        {{"--tls-cert", cert, "--tls-key", other}, "--tls-key"},
        {{"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", "/nothing"},
         "/nothing: No such file or directory"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct child *child = rlockd_start(w, rows[i].args, NULL);
        assert_int_equal(child_wait(child, SOON_MS), 2);
        const char *error = child_stderr(child);
        if (strncmp(error, "rlockd: ", 8) != 0 || strstr(error, rows[i].error) == NULL)
            FAIL("row %zu: %s", i, error);
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_versions),
        E2E_TEST(test_clients_need_certificates),
        E2E_TEST(test_checks_of_client_certificates),
        E2E_TEST(test_half_a_handshake),
        E2E_TEST(test_new_certificates),
        E2E_TEST(test_hang_ups_are_seen),
        E2E_TEST(test_goodbyes_are_seen),
        E2E_TEST(test_wrong_settings),
    };
    struct e2e_plan plan = {.name = "tls", E2E_TESTS(tests), .front_ends = 1};

    return e2e_run(&plan);
}
