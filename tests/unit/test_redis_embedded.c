/* storage/redis/embedded.c and redis_child.c, with real redis-servers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <hiredis/hiredis.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "storage/redis/embedded.h"
#include "storage/redis/url.h"

enum { PATIENCE_MS = 20000, TEXT_SIZE = 256 };

/* Every test has a directory of its own; data is to become the data directory. */
static char directory[64], data[80], bin[80];
static char error[1024];
static char *old_path;

static int set_up(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/rlockd-test-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(data, sizeof(data), "%s/data", directory);
    snprintf(bin, sizeof(bin), "%s/bin", directory);
    old_path = strdup(getenv("PATH"));
    error[0] = '\0';
    return mkdir(bin, 0700);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info, (void)type, (void)at;
    return remove(path);
}

static int is_private(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)path, (void)type, (void)at;
    return (info->st_mode & 077) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    setenv("PATH", old_path, 1);
    free(old_path);
    return nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int64_t now_ms(void)
{
    return clock_ns() / CLOCK_NS_PER_MS;
}

static void nap(int ms)
{
    poll(NULL, 0, ms);
}

static struct redis_embedded *start(void)
{
    struct redis_embedded *redis = redis_embedded_start(data, error, sizeof(error));

    if (redis == NULL)
        fail_msg("%s", error);
    return redis;
}

static void expect_no_start(const char *dir, const char *part)
{
    assert_null(redis_embedded_start(dir, error, sizeof(error)));
    if (strstr(error, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", error, part);
    assert_null(strchr(error, '\n'));
}

static const char *socket_path(void)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/redis.sock", data);
    return path;
}

/* Sends one command on a connection of its own; false when there is no answer or an error. */
static bool ask(char answer[TEXT_SIZE], const char *command)
{
    redisContext *context = redisConnectUnix(socket_path());
    redisReply *reply = context != NULL && context->err == 0 ? redisCommand(context, command)
                                                             : NULL;
    redisReply *value = reply;
    bool answered = false;

    if (value != NULL && value->type == REDIS_REPLY_ARRAY && value->elements == 2)
        value = value->element[1]; /* CONFIG GET */
    if (value != NULL && value->type != REDIS_REPLY_ERROR && value->str != NULL) {
        snprintf(answer, TEXT_SIZE, "%s", value->str);
        answered = true;
    }
    freeReplyObject(reply); /* takes NULL, as redisFree() does */
    redisFree(context);
    return answered;
}

static void expect_answer(const char *command, const char *expected)
{
    char answer[TEXT_SIZE];

    assert_true(ask(answer, command));
    assert_string_equal(answer, expected);
}

static pid_t redis_pid(void)
{
    redisContext *context = redisConnectUnix(socket_path());
    assert_true(context != NULL && context->err == 0);
    redisReply *reply = redisCommand(context, "INFO server");
    assert_non_null(reply);
    pid_t pid = (pid_t)strtol(strstr(reply->str, "process_id:") + strlen("process_id:"), NULL,
                              10);
    freeReplyObject(reply);
    redisFree(context);
    return pid;
}

/* Ticks until the child's end is noticed; returns the pause before the restart. */
static int tick_until_end(struct redis_embedded *redis)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    int wait_ms;

    while ((wait_ms = redis_embedded_tick(redis)) < 0) {
        assert_true(now_ms() < deadline);
        nap(1);
    }
    return wait_ms;
}

/* Ticks until the new child answers. */
static void tick_until_ready(struct redis_embedded *redis)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    char answer[TEXT_SIZE];

    for (;;) {
        int wait_ms = redis_embedded_tick(redis);
        if (wait_ms < 0 && ask(answer, "PING"))
            return;
        assert_true(now_ms() < deadline);
        nap(wait_ms > 0 ? wait_ms : 5);
    }
}

/* Puts a program called `name` before everything else on the PATH. */
static void shadow(const char *name, const char *script)
{
    char path[128], search[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", bin, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, script, strlen(script)), strlen(script));
    close(fd);
    snprintf(search, sizeof(search), "%s:%s", bin, old_path);
    setenv("PATH", search, 1);
}

/* Where the real one is, for scripts that start it. */
static void real_redis(char path[PATH_MAX])
{
    const char *dir = old_path;

    do {
        assert_true(*dir != '\0');
        int len = (int)strcspn(dir, ":");
        snprintf(path, PATH_MAX, "%.*s/redis-server", len, dir);
        dir += len + (dir[len] == ':');
    } while (access(path, X_OK) != 0);
}

static void child_has_the_right_settings(void **state)
{
    struct redis_url url;
    struct stat info;

    (void)state;
    struct redis_embedded *redis = start();
    assert_int_equal(redis_url_parse(&url, redis_embedded_url(redis), error, sizeof(error)), 0);
    assert_int_equal(url.transport, REDIS_UNIX);
    assert_string_equal(url.path, socket_path());
    expect_answer("PING", "PONG");
    expect_answer("CONFIG GET port", "0");
    expect_answer("CONFIG GET appendonly", "yes");
    expect_answer("CONFIG GET appendfsync", "everysec");
    expect_answer("CONFIG GET save", "");
    expect_answer("CONFIG GET maxmemory-policy", "noeviction");
    assert_int_equal(redis_embedded_tick(redis), -1);
    assert_int_equal(stat(data, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(stat(socket_path(), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);

    pid_t pid = redis_pid();
    redis_embedded_stop(redis);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void data_survives_a_restart_of_both(void **state)
{
    (void)state;
    struct redis_embedded *redis = start();
    expect_answer("SET a 1", "OK");
    redis_embedded_stop(redis);
    /* The data is nobody else's, whatever the directory's own mode. */
    assert_int_equal(nftw(data, is_private, 16, FTW_PHYS), 0);
    redis = start();
    expect_answer("GET a", "1");
    redis_embedded_stop(redis);
}

static void killed_child_is_restarted(void **state)
{
    (void)state;
    struct redis_embedded *redis = start();
    expect_answer("SET a 1", "OK");
    pid_t pid = redis_pid();
    kill(pid, SIGKILL);
    assert_in_range(tick_until_end(redis), 0, 50);
    tick_until_ready(redis);
    expect_answer("GET a", "1");
    assert_int_not_equal(redis_pid(), pid);

    /* A second end so soon makes the pause longer. */
    kill(redis_pid(), SIGKILL);
    assert_in_range(tick_until_end(redis), 51, 100);
    assert_in_range(redis_embedded_tick(redis), 1, 100);
    tick_until_ready(redis);
    expect_answer("GET a", "1");
    redis_embedded_stop(redis);
}

static void pause_before_restart_grows(void **state)
{
    char real[PATH_MAX], script[PATH_MAX + 512], broken[128];
    int longest_ms = 0;

    (void)state;
    real_redis(real);
    snprintf(broken, sizeof(broken), "%s/broken", directory);
    snprintf(script, sizeof(script), "#!/bin/sh\n[ -e %s ] && exit 1\nexec %s \"$@\"\n", broken,
             real);
    shadow("redis-server", script);
    struct redis_embedded *redis = start();
    close(open(broken, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    kill(redis_pid(), SIGKILL);
    for (int i = 0; i < 5; i++) {
        int wait_ms = tick_until_end(redis);
        assert_true(wait_ms > longest_ms);
        longest_ms = wait_ms;
        while (redis_embedded_tick(redis) > 0)
            nap(1);
    }
    assert_in_range(longest_ms, 401, 800);
    /* Stopped while there is no child. */
    tick_until_end(redis);
    redis_embedded_stop(redis);
}

static void second_rlockd_is_refused(void **state)
{
    (void)state;
    struct redis_embedded *redis = start();
    expect_no_start(data, "another rlockd");
    /* By another name of the same directory, too. */
    char alias[128];
    snprintf(alias, sizeof(alias), "%s/alias", directory);
    assert_int_equal(symlink(data, alias), 0);
    expect_no_start(alias, "another rlockd");
    expect_answer("PING", "PONG");
    redis_embedded_stop(redis);
}

/* Starts in a process of its own, which then waits to be killed; tells both process ids. */
static pid_t start_elsewhere(pid_t *redis)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct redis_embedded *embedded = redis_embedded_start(data, error, sizeof(error));
        char answer[TEXT_SIZE];
        *redis = embedded != NULL && ask(answer, "SET a 1") ? redis_pid() : -1;
        if (write(ends[1], redis, sizeof(*redis)) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    assert_int_equal(read(ends[0], redis, sizeof(*redis)), sizeof(*redis));
    close(ends[0]);
    close(ends[1]);
    assert_true(*redis > 0);
    return pid;
}

static void orphan_is_waited_for(void **state)
{
    char real[PATH_MAX], script[PATH_MAX + 512];
    pid_t orphan;

    (void)state;
    real_redis(real);
    snprintf(script, sizeof(script),
             "#!/bin/sh\n%s \"$@\" &\ntrap 'sleep 0.3; kill $!; wait $!; exit' TERM\nwait $!\n",
             real);
    shadow("redis-server", script);
    pid_t pid = start_elsewhere(&orphan);
    setenv("PATH", old_path, 1);
    int64_t before = now_ms();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    struct redis_embedded *redis = start();
    assert_true(now_ms() - before >= 300);
    expect_answer("GET a", "1");
    assert_int_not_equal(redis_pid(), orphan);
    redis_embedded_stop(redis);
}

static void child_inherits_nothing(void **state)
{
    char path[64], target[PATH_MAX], line[256];
    bool has_lock = false;

    (void)state;
    int opened = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    int leaked = fcntl(opened, F_DUPFD, 100); /* without O_CLOEXEC */
    close(opened);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    struct redis_embedded *redis = start();
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    close(leaked);
    pid_t pid = redis_pid();
    assert_int_equal(getpgid(pid), pid);

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        target[len > 0 ? len : 0] = '\0';
        assert_null(strstr(target, "/dev/zero"));
        assert_null(strstr(target, "rlockd.lock"));
        has_lock = has_lock || strstr(target, "redis.lock") != NULL;
    }
    closedir(dir);
    assert_true(has_lock);

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    assert_non_null(status);
    while (fgets(line, sizeof(line), status) != NULL)
        if (strncmp(line, "SigBlk:", 7) == 0)
            assert_string_equal(line, "SigBlk:\t0000000000000000\n");
    fclose(status);
    redis_embedded_stop(redis);
}

static void loading_is_waited_for(void **state)
{
    char real[PATH_MAX], script[PATH_MAX + 512];

    (void)state;
    struct redis_embedded *redis = start();
    redisContext *context = redisConnectUnix(socket_path());
    freeReplyObject(
        redisCommand(context, "EVAL %s 0", "for i = 1, 1000 do redis.call('set', i, i) end"));
    freeReplyObject(redisCommand(context, "BGREWRITEAOF"));
    int64_t deadline = now_ms() + PATIENCE_MS;
    for (bool busy = true; busy; nap(10)) {
        redisReply *info = redisCommand(context, "INFO persistence");
        busy = strstr(info->str, "aof_rewrite_in_progress:1") != NULL ||
               strstr(info->str, "aof_rewrite_scheduled:1") != NULL;
        freeReplyObject(info);
        assert_true(now_ms() < deadline);
    }
    redisFree(context);
    redis_embedded_stop(redis);

    /* One millisecond for each key, and answers meanwhile. */
    real_redis(real);
    snprintf(script, sizeof(script),
             "#!/bin/sh\nexec %s \"$@\" --key-load-delay 1000 "
             "--loading-process-events-interval-bytes 1024\n",
             real);
    shadow("redis-server", script);
    int64_t before = now_ms();
    redis = start();
    assert_true(now_ms() - before >= 1000);
    expect_answer("GET 1000", "1000");
    redis_embedded_stop(redis);
}

static void failures_are_explained(void **state)
{
    char path[256];

    (void)state;
    snprintf(path, sizeof(path), "%s/none/d", directory);
    expect_no_start(path, "No such file or directory");
    snprintf(path, sizeof(path), "%s/file", directory);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    expect_no_start(path, "Not a directory");
    snprintf(
        path, sizeof(path), "%s/%.100s", directory,
        "longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglong");
    expect_no_start(path, "at most 107 bytes");

    shadow("redis-server", "#!/bin/sh\necho first\necho bad news\nexit 3\n");
    expect_no_start(data, "exit status 3; the last line of its log: bad news");
    /* What an earlier child logged is not what this one died of. */
    shadow("redis-server", "#!/bin/sh\nkill -9 $$\n");
    expect_no_start(data, "killed by signal 9");
    assert_null(strstr(error, "bad news"));
    shadow("redis-server", "#!/nowhere/sh\n");
    expect_no_start(data, "could not be executed");

    setenv("PATH", directory, 1);
    expect_no_start(data, "install the package redis-tools");
}

/* The server where it has this name alone. */
static void expect_start_of(const char *name)
{
    char real[PATH_MAX], path[128];

    real_redis(real);
    snprintf(path, sizeof(path), "%s/%s", bin, name);
    assert_int_equal(symlink(real, path), 0);
    setenv("PATH", bin, 1);
    struct redis_embedded *redis = start();
    expect_answer("PING", "PONG");
    redis_embedded_stop(redis);
}

static void valkey_will_do(void **state)
{
    (void)state;
    expect_start_of("valkey-server");
}

/* Debian's redis-tools without redis-server. */
static void tools_will_do(void **state)
{
    (void)state;
    expect_start_of("redis-check-rdb");
}

static void signal_ends_the_start(void **state)
{
    struct timespec none = {0};
    sigset_t blocked;

    (void)state;
    shadow("redis-server", "#!/bin/sh\nexec sleep 600\n");
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGTERM);
    expect_no_start(data, "stopped");
    assert_int_equal(sigtimedwait(&blocked, NULL, &none), SIGTERM);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing left behind */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(child_has_the_right_settings),
        TEST(data_survives_a_restart_of_both),
        TEST(killed_child_is_restarted),
        TEST(pause_before_restart_grows),
        TEST(second_rlockd_is_refused),
        TEST(orphan_is_waited_for),
        TEST(child_inherits_nothing),
        TEST(loading_is_waited_for),
        TEST(failures_are_explained),
        TEST(valkey_will_do),
        TEST(tools_will_do),
        TEST(signal_ends_the_start),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
