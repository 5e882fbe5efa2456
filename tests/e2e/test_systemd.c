/* What a service manager and rlockd tell each other: NOTIFY_SOCKET, WATCHDOG_USEC, LISTEN_FDS.
 */
#include "harness.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SOON_MS = 5000,
    TOLD_SIZE = 64 * 1024,
    PASSED_FD = 300, /* above those that the harness closes */
    ATTEMPTS_MAX = 100
};

/* What the service manager was told: one datagram after the other, a line each. */
struct manager {
    int fd;
    char path[108];
    char told[TOLD_SIZE];
    size_t len;
};

static void manager_undo(void *thing)
{
    struct manager *manager = thing;

    close(manager->fd);
    unlink(manager->path);
    free(manager);
}

static struct manager *manager_start(struct world *w, const char *name)
{
    struct manager *manager = calloc(1, sizeof(*manager));
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (manager == NULL)
        abort();
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    world_defer(w, manager_undo, manager);
    snprintf(manager->path, sizeof(manager->path), "%s", name);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", name);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    assert_int_equal(bind(manager->fd, (struct sockaddr *)&address, len), 0);
    return manager;
}

static const char *told(struct manager *manager)
{
    ssize_t got;

    while ((got = recv(manager->fd, manager->told + manager->len,
                       sizeof(manager->told) - manager->len - 2, 0)) >= 0) {
        manager->len += (size_t)got;
        manager->told[manager->len++] = '\n';
        manager->told[manager->len] = '\0';
    }
    return manager->told;
}

/* How often a line was told, which has to be the whole line. */
static int count_told(struct manager *manager, const char *line)
{
    size_t len = strlen(line);
    int count = 0;

    for (const char *at = told(manager); (at = strstr(at, line)) != NULL; at += len)
        count += (at == manager->told || at[-1] == '\n') && at[len] == '\n';
    return count;
}

/* What was told until now counts no more. */
static void forget(struct manager *manager)
{
    told(manager);
    manager->len = 0;
    manager->told[0] = '\0';
}

/* rlockd on the private Redis, with its manager and one more variable (NULL: none). */
static struct front *start_managed(struct world *w, struct manager *manager,
                                   const char *variable, const char *workers)
{
    const char *const args[] = {"--listen",  "127.0.0.1:0", "--redis", w->redis->url,
                                "--workers", workers,       NULL};
    const char *const env[] = {text(w, "NOTIFY_SOCKET=%s", manager->path), variable, NULL};
    struct front *fe = calloc(1, sizeof(*fe));

    if (fe == NULL)
        abort();
    world_defer(w, free, fe);
    fe->world = w;
    fe->child = rlockd_start(w, args, env);
    wait_until((fe->port = front_port(fe)) != 0, SOON_MS);
    wait_until(count_told(manager, "READY=1") == 1, SOON_MS);
    wait_until(count_told(manager, "STATUS=serving") == 1, SOON_MS);
    return fe;
}

static void stop_managed(struct front *fe)
{
    child_signal(fe->child, SIGTERM);
    assert_int_equal(child_wait(fe->child, 8000), 0);
}

static void test_notify(struct world *w)
{
    const char *const names[] = {text(w, "%s/notify", w->dir), text(w, "@%s/notify", w->dir)};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct manager *manager = manager_start(w, names[i]);
        struct front *fe = start_managed(w, manager, NULL, "2");

        assert_int_equal(count_told(manager, "WATCHDOG=1"), 0);
        assert_int_equal(count_told(manager, "STOPPING=1"), 0);
        stop_managed(fe);
        assert_int_equal(count_told(manager, "STOPPING=1"), 1);
        assert_int_equal(count_told(manager, "STATUS=draining"), 1);
        /* The last status is not one of a connection to Redis that ends. */
        assert_null(strstr(strstr(told(manager), "STATUS=draining"), "STATUS=Redis"));
    }
}

static void test_status_follows_redis(struct world *w)
{
    struct redis *redis = redis_start(w, NULL);
    struct manager *manager = manager_start(w, text(w, "%s/notify", w->dir));
    const char *const args[] = {"--listen", "127.0.0.1:0", "--redis", redis->url, NULL};
    const char *const env[] = {text(w, "NOTIFY_SOCKET=%s", manager->path), NULL};
    struct child *child = rlockd_start(w, args, env);

    wait_until(count_told(manager, "STATUS=serving") == 1, SOON_MS);
    redis_kill(redis);
    wait_until(count_told(manager, "STATUS=Redis cannot be used: see /readyz") == 1, SOON_MS);
    redis_return(redis);
    wait_until(count_told(manager, "STATUS=serving") == 2, SOON_MS);
    child_signal(child, SIGTERM);
    assert_int_equal(child_wait(child, 8000), 0);
}

/* systemd takes a reload for begun only with a time of its own clock that is not in the past,
 * and for ended only with another READY=1. */
static void test_reload(struct world *w)
{
    struct manager *manager = manager_start(w, text(w, "%s/notify", w->dir));
    struct front *fe = start_managed(w, manager, NULL, "1");
    struct timespec before, after;
    long long us;

    forget(manager);
    clock_gettime(CLOCK_MONOTONIC, &before);
    child_signal(fe->child, SIGHUP);
    wait_until(count_told(manager, "READY=1") == 1, SOON_MS);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_int_equal(sscanf(told(manager), "RELOADING=1\nMONOTONIC_USEC=%lld\n", &us), 1);
    assert_true(us >= before.tv_sec * 1000000LL + before.tv_nsec / 1000);
    assert_true(us <= after.tv_sec * 1000000LL + after.tv_nsec / 1000);
    assert_non_null(strstr(strstr(told(manager), "MONOTONIC_USEC"), "READY=1"));
    stop_managed(fe);
}

/* A thread of the child that is not its first. */
static pid_t second_thread(struct world *w, const struct child *child)
{
    DIR *tasks = opendir(text(w, "/proc/%d/task", child_pid(child)));
    struct dirent *entry;
    pid_t found = 0;

    assert_non_null(tasks);
    while ((entry = readdir(tasks)) != NULL) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > found && thread != child_pid(child))
            found = thread;
    }
    closedir(tasks);
    return found;
}

/* Also when the test fails: the kernel buries no process with a thread that is traced. */
static void detach(void *thing)
{
    ptrace(PTRACE_DETACH, *(pid_t *)thing, NULL, NULL);
}

/* One worker of two that hangs makes rlockd fall silent; so does a main thread that hangs. */
static void test_watchdog(struct world *w)
{
    enum { WATCHDOG_MS = 400 };
    struct manager *manager = manager_start(w, text(w, "%s/notify", w->dir));
    struct front *fe = start_managed(w, manager, "WATCHDOG_USEC=400000", "2");
    int status;

    wait_until(count_told(manager, "WATCHDOG=1") >= 4, SOON_MS);
    child_signal(fe->child, SIGSTOP);
    forget(manager);
    stays_true(count_told(manager, "WATCHDOG=1") == 0, 2 * WATCHDOG_MS);
    child_signal(fe->child, SIGCONT);
    wait_until(count_told(manager, "WATCHDOG=1") >= 2, SOON_MS);

    static pid_t thread;
    thread = second_thread(w, fe->child);
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0 ||
        ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0) {
        print_message("no single thread can be stopped here: %s\n", strerror(errno));
    } else {
        world_defer(w, detach, &thread);
        assert_int_equal(waitpid(thread, &status, __WALL), thread);
        nap_ms((int)patience_ms(WATCHDOG_MS)); /* the turn before may be told of */
        forget(manager);
        stays_true(count_told(manager, "WATCHDOG=1") == 0, 2 * WATCHDOG_MS);
        detach(&thread);
        wait_until(count_told(manager, "WATCHDOG=1") >= 2, SOON_MS);
    }
    stop_managed(fe);
}

/* A drain may take longer than the watchdog's time. */
static void test_watchdog_while_draining(struct world *w)
{
    struct manager *manager = manager_start(w, text(w, "%s/notify", w->dir));
    int64_t delay_ms = patience_ms(1000);
    const char *delay = text(w, "%d", (int)delay_ms);
    const char *const args[] = {"--listen",         "127.0.0.1:0", "--redis", w->redis->url,
                                "--drain-delay-ms", delay,         NULL};
    const char *const env[] = {text(w, "NOTIFY_SOCKET=%s", manager->path),
                               "WATCHDOG_USEC=200000", NULL};
    struct child *child = rlockd_start(w, args, env);

    wait_until(count_told(manager, "STATUS=serving") == 1, SOON_MS);
    child_signal(child, SIGTERM);
    wait_until(count_told(manager, "STOPPING=1") == 1, SOON_MS);
    const char *extension = text(w, "EXTEND_TIMEOUT_USEC=%d", (int)(16000 + delay_ms) * 1000);
    assert_int_equal(count_told(manager, extension), 1);
    assert_int_equal(child_wait(child, 7000 + (int)delay_ms), 0);
    int alive = 0;
    for (const char *at = strstr(told(manager), "STOPPING=1");
         (at = strstr(at, "WATCHDOG=1")) != NULL; at++)
        alive++;
    assert_true(alive >= 3);
}

/* A service that stops gets no READY=1 any more. The files are read again all the same. */
static void test_a_reload_while_draining(struct world *w)
{
    struct manager *manager = manager_start(w, text(w, "%s/notify", w->dir));
    const char *delay = text(w, "%d", (int)patience_ms(1000));
    const char *const args[] = {"--listen",         "127.0.0.1:0", "--redis", w->redis->url,
                                "--drain-delay-ms", delay,         NULL};
    const char *const env[] = {text(w, "NOTIFY_SOCKET=%s", manager->path), NULL};
    struct child *child = rlockd_start(w, args, env);

    wait_until(count_told(manager, "STATUS=serving") == 1, SOON_MS);
    child_signal(child, SIGTERM);
    wait_until(count_told(manager, "STOPPING=1") == 1, SOON_MS);
    forget(manager);
    child_signal(child, SIGHUP);
    wait_until(strstr(child_stderr(child), "nothing to reload") != NULL, SOON_MS);
    assert_int_equal(child_wait(child, 7000 + (int)patience_ms(1000)), 0);
    assert_int_equal(count_told(manager, "RELOADING=1"), 0);
    assert_int_equal(count_told(manager, "READY=1"), 0);
}

/* It is meant for another process. */
static void test_watchdog_of_somebody_else(struct world *w)
{
    struct manager *manager = manager_start(w, text(w, "%s/notify", w->dir));
    const char *const args[] = {"--listen", "127.0.0.1:0", "--redis", w->redis->url, NULL};
    const char *const env[] = {text(w, "NOTIFY_SOCKET=%s", manager->path),
                               "WATCHDOG_USEC=100000", "WATCHDOG_PID=1", NULL};
    struct child *child = rlockd_start(w, args, env);

    wait_until(count_told(manager, "STATUS=serving") == 1, SOON_MS);
    stays_true(count_told(manager, "WATCHDOG=1") == 0, 300);
    child_signal(child, SIGTERM);
    assert_int_equal(child_wait(child, 8000), 0);
}

/* ---- LISTEN_FDS */

static void close_passed(void *thing)
{
    (void)thing;
    close(PASSED_FD);
}

/* A listening socket as PASSED_FD, which children inherit; returns its port. */
static int open_passed(struct world *w)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 100), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(dup2(fd, PASSED_FD), PASSED_FD);
    close(fd);
    world_defer(w, close_passed, NULL);
    return ntohs(address.sin_port);
}

/* rlockd, to which `bash` passes PASSED_FD as a service manager does; `$$` is also rlockd's. */
static struct front *start_with_socket(struct world *w, const char *workers,
                                       const char *variables)
{
    const char *script = text(w,
                              "export %s; exec \"$0\" --listen 127.0.0.1:0 --redis %s "
                              "--workers %s 3<&%d %d<&-",
                              variables, w->redis->url, workers, PASSED_FD, PASSED_FD);
    const char *const argv[] = {"bash", "-c", script, rlockd_binary(), NULL};
    struct front *fe = calloc(1, sizeof(*fe));

    if (fe == NULL)
        abort();
    world_defer(w, free, fe);
    fe->world = w;
    fe->child = child_start(w, "rlockd", argv, NULL);
    return fe;
}

static const char *const PASSED = "LISTEN_PID=$$ LISTEN_FDS=1";

/* Every connection attempt of a restart is answered: by the server that ends or by the next. */
static void restart_under_attempts(struct world *w, const char *workers)
{
    struct raw *attempts[ATTEMPTS_MAX];
    int port = open_passed(w), count = 0;
    /* A drain so long that some attempts come within it. */
    const char *variables = text(w, "%s RLOCKD_DRAIN_DELAY_MS=500", PASSED);
    struct front *fe = start_with_socket(w, workers, variables), *next;

    wait_until(front_port(fe) == port, SOON_MS);
    fe->port = port;
    wait_until(front_ready(fe), SOON_MS);
    expect_status(lock_put(fe, text(w, "socket-%s", workers), token_new(w), NULL), 201);
    child_signal(fe->child, SIGTERM);
    while (child_wait(fe->child, 0) < 0 && count < ATTEMPTS_MAX - 1) {
        attempts[count] = raw_open(fe);
        raw_text(attempts[count++], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        nap_ms(10);
    }
    assert_int_equal(child_wait(fe->child, 8000), 0);
    attempts[count] = raw_open(fe);
    raw_text(attempts[count++], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_true(count >= 3);

    next = start_with_socket(w, workers, PASSED);
    for (int i = 0; i < count; i++) {
        expect_status(raw_reply(attempts[i], SOON_MS), 200);
        raw_close(attempts[i]);
    }
    next->port = port;
    for (int i = 0; i < 20; i++) /* whichever worker accepts */
        expect_status(http(next, "GET", "/v1/locks/socket", NULL), 200);
    stop_managed(next);
}

static void test_a_restart_loses_no_connection(struct world *w)
{
    restart_under_attempts(w, "1");
    close(PASSED_FD);
    restart_under_attempts(w, "3");
}

/* Whether a process has the socket open that PASSED_FD is. */
static bool keeps_socket(struct world *w, int pid)
{
    char inode[64] = "";
    int code;

    assert_true(readlink(text(w, "/proc/self/fd/%d", PASSED_FD), inode, sizeof(inode) - 1) > 0);
    return shell_run(w, &code,
                     text(w, "readlink /proc/%d/fd/* | grep -F '%s'", pid, inode))[0] != '\0';
}

/* A request that would have to wait is not refused by a server that drains: it is left in the
 * kernel for the next server. */
static void test_the_next_server_accepts(struct world *w)
{
    struct redis *redis = w->redis;
    int port = open_passed(w);
    struct front *fe = start_with_socket(w, "2", PASSED), *next;
    struct raw *under_way, *attempt;

    wait_until(front_port(fe) == port, SOON_MS);
    fe->port = port;
    expect_status(lock_put(fe, "left", token_new(w), NULL), 201);
    under_way = raw_open(fe);
    redis_freeze(redis);
    raw_text(under_way, "GET /v1/locks/left HTTP/1.1\r\nHost: localhost\r\n\r\n");
    nap_ms(50);
    child_signal(fe->child, SIGTERM);
    wait_until(!keeps_socket(w, child_pid(fe->child)), 2000);
    attempt = raw_open(fe);
    raw_text(attempt,
             "PUT /v1/locks/left?wait_ms=50 HTTP/1.1\r\nHost: localhost\r\n"
             "Lease-Token: %s\r\nContent-Length: 0\r\n\r\n",
             token_new(w));
    redis_thaw(redis);
    assert_int_equal(child_wait(fe->child, 8000), 0);
    /* 503: Redis stood still for as long as a request waits for it. */
    struct reply *r = raw_reply(under_way, SOON_MS);
    expect_true(r, r->status == 200 || r->status == 503);

    next = start_with_socket(w, "2", PASSED);
    expect_status(raw_reply(attempt, SOON_MS), 423);
    stop_managed(next);
}

/* The child of rlockd, an embedded Redis, does not keep the socket. */
static void test_the_socket_stays_with_rlockd(struct world *w)
{
    int port = open_passed(w);
    const char *script = text(w, "export %s; exec \"$0\" --data-dir %s/data 3<&%d %d<&-",
                              PASSED, w->dir, PASSED_FD, PASSED_FD);
    const char *const argv[] = {"bash", "-c", script, rlockd_binary(), NULL};
    struct front fe = {.world = w, .child = child_start(w, "rlockd", argv, NULL)};

    wait_until(front_port(&fe) == port, SOON_MS);
    json_t *line = front_log_find(&fe, "embedded redis started");
    int pid = (int)json_integer_value(json_object_get(line, "pid"));
    json_decref(line);
    assert_true(keeps_socket(w, child_pid(fe.child)));
    assert_false(keeps_socket(w, pid));
    child_signal(fe.child, SIGTERM);
    assert_int_equal(child_wait(fe.child, 20000), 0);
}

static void test_wrong_sockets(struct world *w)
{
    static const char *const refused[] = {"LISTEN_PID=$$ LISTEN_FDS=2",
                                          "LISTEN_PID=$$ LISTEN_FDS=-1"};
    int port = open_passed(w);

    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct front *fe = start_with_socket(w, "1", refused[i]);
        assert_int_equal(child_wait(fe->child, SOON_MS), 1);
        assert_non_null(strstr(child_stderr(fe->child), "LISTEN_FDS"));
    }
    /* Not passed to rlockd. */
    struct front *fe = start_with_socket(w, "1", "LISTEN_PID=1 LISTEN_FDS=1");
    wait_until(front_port(fe) != 0, SOON_MS);
    assert_int_not_equal(front_port(fe), port);
    stop_managed(fe);
    /* A socket that does not listen. */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(dup2(fd, PASSED_FD), PASSED_FD);
    close(fd);
    fe = start_with_socket(w, "1", PASSED);
    assert_int_equal(child_wait(fe->child, SOON_MS), 1);
    assert_non_null(strstr(child_stderr(fe->child), "LISTEN_FDS"));
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_notify),
        E2E_TEST(test_status_follows_redis),
        E2E_TEST(test_reload),
        E2E_TEST(test_watchdog),
        E2E_TEST(test_watchdog_while_draining),
        E2E_TEST(test_a_reload_while_draining),
        E2E_TEST(test_watchdog_of_somebody_else),
        E2E_TEST(test_a_restart_loses_no_connection),
        E2E_TEST(test_the_next_server_accepts),
        E2E_TEST(test_the_socket_stays_with_rlockd),
        E2E_TEST(test_wrong_sockets),
    };
    struct e2e_plan plan = {.name = "systemd", E2E_TESTS(tests)};

    return e2e_run(&plan);
}
