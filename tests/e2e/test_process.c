/* What the operator does to the process: descriptors, limits, SIGHUP. */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOON_MS = 5000 };

/* rlockd under `sh -c`, where `$0` is rlockd. */
static struct child *start_by_shell(struct world *w, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, rlockd_binary(), NULL};

    return child_start(w, "rlockd", argv, NULL);
}

static bool file_is_dev_null(struct world *w, int pid, int fd)
{
    char target[256] = "";
    ssize_t len = readlink(text(w, "/proc/%d/fd/%d", pid, fd), target, sizeof(target) - 1);

    return len > 0 && strcmp(target, "/dev/null") == 0;
}

/* A worker subscribes after the start: a signal before it is status 1. */
static bool has_subscriber(const char *redis_socket)
{
    redisContext *db = redisConnectUnix(redis_socket);
    bool is_open = db != NULL && db->err == 0;
    redisReply *channels = is_open ? redisCommand(db, "PUBSUB CHANNELS") : NULL;
    bool has_one = channels != NULL && channels->elements > 0;

    if (channels != NULL)
        freeReplyObject(channels);
    if (db != NULL)
        redisFree(db);
    return has_one;
}

/* The first files that are opened must not become standard error. */
static void test_closed_descriptors(struct world *w)
{
    struct child *child = start_by_shell(
        w, text(w,
                "exec \"$0\" --listen 127.0.0.1:0 --data-dir %s/data --log-level debug"
                " 0<&- 1>&- 2>&-",
                w->dir));
    const char *lock = text(w, "%s/data/rlockd.lock", w->dir);
    const char *log = text(w, "%s/data/redis.log", w->dir);
    struct stat info;

    wait_until(stat(log, &info) == 0 && info.st_size > 0, SOON_MS);
    for (int fd = 0; fd <= 2; fd++)
        wait_until(file_is_dev_null(w, child_pid(child), fd), SOON_MS);
    wait_until(has_subscriber(text(w, "%s/data/redis.sock", w->dir)), SOON_MS);
    assert_int_equal(stat(lock, &info), 0);
    assert_int_equal(info.st_size, 0);
    child_signal(child, SIGTERM);
    assert_int_equal(child_wait(child, SOON_MS), 0);
}

/* No more connections than there are descriptors for. */
static void test_few_descriptors(struct world *w)
{
    const char *command = "ulimit -n %d; exec \"$0\" --listen 127.0.0.1:0 --redis %s";
    struct child *child = start_by_shell(w, text(w, command, 64, w->redis->url));
    const char *limit;

    wait_until(strstr(child_stderr(child), "\"listening\"") != NULL, SOON_MS);
    limit = strstr(child_stderr(child), "\"max_connections\":");
    assert_non_null(limit);
    assert_in_range(atoi(strchr(limit, ':') + 1), 16, 48);
    child_signal(child, SIGTERM);
    assert_int_equal(child_wait(child, SOON_MS), 0);
    child = start_by_shell(w, text(w, command, 32, w->redis->url));
    assert_int_equal(child_wait(child, SOON_MS), 1);
    assert_non_null(strstr(child_stderr(child), "ulimit -n"));
}

/* Exit code 1, and a line that has this word. */
static void expect_refused_directory(struct world *w, const char *directory, const char *word)
{
    const char *const args[] = {"--listen", "127.0.0.1:0", "--data-dir", directory, NULL};
    struct child *child = rlockd_start(w, args, NULL);

    assert_int_equal(child_wait(child, SOON_MS), 1);
    if (strstr(child_stderr(child), word) == NULL)
        FAIL("%s lacks \"%s\"", child_stderr(child), word);
}

/* Who may write to the directory may exchange what Redis loads from it. */
static void test_data_directory_of_somebody_else(struct world *w)
{
    const char *data = text(w, "%s/mine", w->dir), *log = text(w, "%s/redis.log", data);
    const char *target = text(w, "%s/target", w->dir);

    assert_int_equal(mkdir(data, 0700), 0);
    assert_int_equal(chmod(data, 0777), 0);
    expect_refused_directory(w, data, "others may write");
    assert_int_equal(chmod(data, 0720), 0);
    expect_refused_directory(w, data, "others may write");
    assert_int_equal(chmod(data, 0755), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(data, 65534, 65534), 0);
        expect_refused_directory(w, data, "another user");
        assert_int_equal(chown(data, 0, 0), 0);
    }
    assert_int_equal(symlink(target, log), 0);
    expect_refused_directory(w, data, "redis.log is a symbolic link");
    assert_int_equal(access(target, F_OK), -1);
    assert_int_equal(unlink(log), 0);
    front_start(w, "--data-dir", data, NULL);
}

static bool has_logged(struct front *fe, const char *msg)
{
    json_t *line = front_log_find(fe, msg);

    json_decref(line);
    return line != NULL;
}

static void test_sighup_without_tokens(struct world *w)
{
    struct front *fe = front_start(w, "--redis", w->redis->url, NULL);

    child_signal(fe->child, SIGHUP);
    wait_until(has_logged(fe, "nothing to reload: no API tokens"), SOON_MS);
    assert_true(front_ready(fe));
}

static int port_in(const char *log)
{
    const char *listen = strstr(log, "\"listen\":\"127.0.0.1:");

    return listen != NULL ? atoi(listen + strlen("\"listen\":\"127.0.0.1:")) : 0;
}

/* Starts `fe` with a pipe for its log; returns the end to read, to be closed. */
static int start_with_log_in_a_pipe(struct world *w, struct front *fe)
{
    enum { START_BYTES = 64 * 1024 };
    const char *path = text(w, "%s/log", w->dir);
    static char log[START_BYTES + 1];
    size_t len = 0;

    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    memset(log, 0, sizeof(log));
    *fe = (struct front){.world = w};
    fe->child = start_by_shell(
        w, text(w, "exec \"$0\" --listen 127.0.0.1:0 --redis %s 2> %s", w->redis->url, path));
    struct patience patience = patience_of(SOON_MS);
    while (port_in(log) == 0 && !patience_ends(&patience)) {
        ssize_t got = read(reader, log + len, START_BYTES - len);
        len += got > 0 ? (size_t)got : 0;
        nap_ms(5);
    }
    fe->port = port_in(log);
    assert_true(fe->port > 0);
    wait_until(front_ready(fe), SOON_MS);
    return reader;
}

static void expect_drops_and_an_end(struct front *fe)
{
    assert_true(front_metric(fe, "rlockd_log_dropped_total", NULL) > 0);
    child_signal(fe->child, SIGTERM);
    assert_int_equal(child_wait(fe->child, SOON_MS), 0);
}

/* A pager that was stopped, a log driver that hangs: requests and the end go on. */
static void test_log_that_nobody_reads(struct world *w)
{
    enum { REQUESTS = 12000 };
    struct front fe;
    int reader = start_with_log_in_a_pipe(w, &fe);

    struct raw *raw = raw_open(&fe);
    for (int i = 0; i < REQUESTS; i++) {
        raw_text(raw, "GET /v1/locks/quiet HTTP/1.1\r\nHost: localhost\r\n\r\n");
        expect_status(raw_reply(raw, SOON_MS), 200);
    }
    expect_drops_and_an_end(&fe);
    close(reader);
}

/* A pager that was left, a log collector that died. */
static void test_log_whose_reader_has_gone(struct world *w)
{
    struct front fe;

    close(start_with_log_in_a_pipe(w, &fe));
    for (int i = 0; i < 10; i++)
        expect_status(lock_look(&fe, "quiet"), 200);
    expect_drops_and_an_end(&fe);
}

/* The first requests of a server whose connection to Redis takes a moment. */
static void test_the_first_requests_wait_for_redis(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    int64_t begin_ms = now_ms();
    struct front *fe;
    struct call *call;

    redis_freeze(redis);
    fe = front_launch(w, "--redis", redis->url, "--workers", "2", NULL);
    call = call_put(fe, "early", token_new(w), NULL);
    nap_ms(50);
    redis_thaw(redis);
    struct reply *r = call_await(call, SOON_MS);
    if (now_ms() - begin_ms < 900) /* later than that it is not held back any more */
        expect_status(r, 201);
}

/* A server without Redis answers all the same, a little later. */
static void test_without_redis_it_answers(struct world *w)
{
    struct front *fe = front_launch(w, "--redis", text(w, "unix://%s/none", w->dir), NULL);

    expect_status(http(fe, "GET", "/livez", NULL), 200);
    expect_status(http(fe, "GET", "/readyz", NULL), 503);
    expect_problem(lock_put(fe, "early", token_new(w), NULL), 503, "redis-unavailable");
}

static int warnings(struct child *child)
{
    int count = 0;

    for (const char *at = child_stderr(child); (at = strstr(at, "\"level\":\"warn\"")) != NULL;
         at++)
        count++;
    return count;
}

/* Whoever serves the network without asking for a token is told, once. */
static void test_an_open_server_is_warned_of(struct world *w)
{
    static const struct {
        const char *listen;
        bool has_tokens;
        int warnings;
    } rows[] = {
        {"0.0.0.0:0", false, 1}, {"[::]:0", false, 1},      {":0", false, 1},
        {"0.0.0.0:0", true, 0},  {"127.0.0.1:0", false, 0}, {"127.3.2.1:0", false, 0},
        {"[::1]:0", false, 0},   {"localhost:0", false, 0},
    };
    const char *tokens = tokens_write(w, "tokens", "ci {secret-secret-secret} lock=*\n");

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *const args[] = {"--listen",
                                    rows[i].listen,
                                    "--redis",
                                    w->redis->url,
                                    rows[i].has_tokens ? "--api-tokens" : NULL,
                                    tokens,
                                    NULL};
        struct child *child = rlockd_start(w, args, NULL);
        wait_until(strstr(child_stderr(child), "\"msg\":\"listening\"") != NULL, SOON_MS);
        child_signal(child, SIGTERM);
        assert_int_equal(child_wait(child, 8000), 0);
        if (warnings(child) != rows[i].warnings)
            FAIL("%s: %d warnings: %s", rows[i].listen, warnings(child), child_stderr(child));
        if (rows[i].warnings > 0)
            assert_non_null(strstr(child_stderr(child), "set --api-tokens and --tls-cert"));
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_closed_descriptors),
        E2E_TEST(test_few_descriptors),
        E2E_TEST(test_data_directory_of_somebody_else),
        E2E_TEST(test_sighup_without_tokens),
        E2E_TEST(test_an_open_server_is_warned_of),
        E2E_TEST(test_the_first_requests_wait_for_redis),
        E2E_TEST(test_without_redis_it_answers),
        E2E_TEST(test_log_that_nobody_reads),
        E2E_TEST(test_log_whose_reader_has_gone),
    };
    struct e2e_plan plan = {.name = "process", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
