/* The start, the supervision and the stop of the embedded Redis. */
#include "storage/redis/embedded.h"

#include "server/base/clock.h"
#include "server/base/log.h"
#include "storage/redis/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ORPHAN_TIMEOUT_MS = 10000,
    SOCKET_TIMEOUT_MS = 10000,
    LOADING_TIMEOUT_MS = 60000,
    STOP_TIMEOUT_MS = 10000,
    POLL_INTERVAL_MS = 10,
    BACKOFF_MIN_MS = 50,
    BACKOFF_MAX_MS = 5000,
    BACKOFF_RESET_MS = 10000, /* a child that lived this long starts the back-off anew */
    END_TEXT_SIZE = 512
};

struct redis_embedded {
    struct redis_child child; /* lock_fd is open in the child and in rlockd: the lock lasts as
                                 long as one of them lives */
    int own_lock_fd;          /* keeps a second rlockd out */
    char url[REDIS_URL_TEXT_SIZE];
    int64_t started_at_ms;
    int64_t restart_at_ms;
    int backoff_ms;
};

static int64_t now_ms(void)
{
    return clock_ns() / CLOCK_NS_PER_MS;
}

static void nap(void)
{
    poll(NULL, 0, POLL_INTERVAL_MS);
}

static bool stop_requested(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

static int start_child(struct redis_embedded *redis)
{
    redis->started_at_ms = now_ms();
    return redis_child_start(&redis->child);
}

/* ---- start */

/* Another user who may write to the directory could replace the data that Redis loads and
 * serves. A symbolic link in the directory may be left from a time when another user could
 * write. */
static int check_directory(const char *directory, char *error, size_t error_size)
{
    struct stat info;
    const char *fault = NULL, *link = "";
    struct dirent *entry;
    DIR *stream = opendir(directory);

    if (stream == NULL || fstat(dirfd(stream), &info) != 0)
        fault = strerror(errno);
    else if (info.st_uid != geteuid())
        fault = "belongs to another user: name a directory inside it, which will be made";
    else if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        fault = "others may write to it: chmod go-w, or name a directory inside it";
    while (fault == NULL && (entry = readdir(stream)) != NULL) {
        if (fstatat(dirfd(stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(info.st_mode)) {
            fault = "is a symbolic link, which is not followed here";
            link = entry->d_name;
        }
    }
    if (fault != NULL)
        snprintf(error, error_size, "--data-dir: %s: %s%s%s", directory, link,
                 link[0] != '\0' ? " " : "", fault);
    if (stream != NULL)
        closedir(stream);
    return fault == NULL ? 0 : -1;
}

/* Makes the directory, and fills in the paths in it. */
static int prepare(struct redis_embedded *redis, const char *data_dir, char *error,
                   size_t error_size)
{
    struct redis_child *child = &redis->child;
    char directory[PATH_MAX];

    if (redis_child_find_executable(child) != 0) {
        snprintf(
            error, error_size,
            "the embedded Redis needs redis-server (or valkey-server) on the PATH: install "
            "the package redis-tools, or name a Redis that runs with --redis");
        return -1;
    }
    if ((mkdir(data_dir, 0700) != 0 && errno != EEXIST) ||
        realpath(data_dir, directory) == NULL) {
        snprintf(error, error_size, "--data-dir: %s: %s", data_dir, strerror(errno));
        return -1;
    }
    if (check_directory(directory, error, error_size) != 0)
        return -1;
    size_t len = strlen(directory);
    if (len + strlen("/redis.sock") >= sizeof(child->socket_path)) {
        snprintf(error, error_size,
                 "--data-dir: %s: a unix socket's path has at most %zu bytes, and that of "
                 "redis.sock in it would have %zu",
                 data_dir, sizeof(child->socket_path) - 1, len + strlen("/redis.sock"));
        return -1;
    }
    memcpy(child->directory, directory, len + 1);
    snprintf(child->socket_path, sizeof(child->socket_path), "%.*s/redis.sock", (int)len,
             directory);
    snprintf(child->log_path, sizeof(child->log_path), "%.*s/redis.log", (int)len, directory);
    redis_url_of_socket(child->socket_path, redis->url);
    return 0;
}

static int open_lock(const struct redis_embedded *redis, const char *name, char *error,
                     size_t error_size)
{
    char path[REDIS_CHILD_PATH_SIZE + 16];

    snprintf(path, sizeof(path), "%s/%s", redis->child.directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        snprintf(error, error_size, "%s: %s", path, strerror(errno));
    return fd;
}

static int take_own_lock(struct redis_embedded *redis, char *error, size_t error_size)
{
    redis->own_lock_fd = open_lock(redis, "rlockd.lock", error, error_size);
    if (redis->own_lock_fd < 0)
        return -1;
    if (flock(redis->own_lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    snprintf(error, error_size, "--data-dir: %s: %s", redis->child.directory,
             errno == EWOULDBLOCK ? "another rlockd uses it: name another directory"
                                  : strerror(errno));
    return -1;
}

/* Waits for the child of an rlockd that was killed: the kernel has sent it SIGTERM, and the
 * child saves its data. */
static int take_child_lock(struct redis_embedded *redis, char *error, size_t error_size)
{
    const char *directory = redis->child.directory;
    int64_t deadline = now_ms() + ORPHAN_TIMEOUT_MS;

    redis->child.lock_fd = open_lock(redis, "redis.lock", error, error_size);
    if (redis->child.lock_fd < 0)
        return -1;
    while (flock(redis->child.lock_fd, LOCK_EX | LOCK_NB) != 0) {
        const char *fault = NULL;
        if (errno != EWOULDBLOCK)
            fault = strerror(errno);
        else if (stop_requested())
            fault = "stopped while waiting for the redis-server of an earlier rlockd to end";
        else if (now_ms() >= deadline)
            fault = "the redis-server of an earlier rlockd still runs on it";
        if (fault != NULL) {
            snprintf(error, error_size, "--data-dir: %s: %s", directory, fault);
            return -1;
        }
        nap();
    }
    return 0;
}

static int wait_until_ready(struct redis_embedded *redis, char *error, size_t error_size)
{
    struct redis_child *child = &redis->child;
    char end[END_TEXT_SIZE];
    int status;

    for (;;) {
        enum redis_child_state state = redis_child_probe(child);
        if (state == REDIS_CHILD_READY)
            return 0;
        if (redis_child_reap(child, &status)) {
            redis_child_describe_end(child, status, end, sizeof(end));
            snprintf(error, error_size, "the embedded redis-server ended at its start: %s",
                     end);
            return -1;
        }
        if (stop_requested()) {
            snprintf(error, error_size, "stopped while the embedded Redis was starting");
            return -1;
        }
        int64_t limit_ms = state == REDIS_CHILD_NO_SOCKET ? SOCKET_TIMEOUT_MS
                                                          : LOADING_TIMEOUT_MS;
        if (now_ms() - redis->started_at_ms >= limit_ms) {
            snprintf(error, error_size,
                     "the embedded redis-server is not ready after %lld seconds, see %s",
                     (long long)limit_ms / 1000, child->log_path);
            return -1;
        }
        nap();
    }
}

struct redis_embedded *redis_embedded_start(const char *data_dir, char *error,
                                            size_t error_size)
{
    struct redis_embedded *redis = calloc(1, sizeof(*redis));

    if (redis == NULL) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    redis->own_lock_fd = -1;
    redis->child.lock_fd = -1;
    redis->backoff_ms = BACKOFF_MIN_MS;
    if (prepare(redis, data_dir, error, error_size) != 0 ||
        take_own_lock(redis, error, error_size) != 0 ||
        take_child_lock(redis, error, error_size) != 0)
        goto failed;
    if (start_child(redis) != 0) {
        snprintf(error, error_size, "the embedded redis-server: %s", strerror(errno));
        goto failed;
    }
    if (wait_until_ready(redis, error, error_size) != 0)
        goto failed;
    log_write(LOG_LEVEL_INFO, "embedded redis started",
              json_pack("{s:s, s:i}", "data_dir", redis->child.directory, "pid",
                        (int)redis->child.pid));
    return redis;

failed:
    redis_embedded_stop(redis);
    return NULL;
}

const char *redis_embedded_url(const struct redis_embedded *redis)
{
    return redis->url;
}

/* ---- restart and stop */

static void plan_restart(struct redis_embedded *redis, const char *msg, const char *reason)
{
    log_write(LOG_LEVEL_ERROR, msg,
              json_pack("{s:s, s:i}", "reason", reason, "restart_in_ms", redis->backoff_ms));
    redis->restart_at_ms = now_ms() + redis->backoff_ms;
    redis->backoff_ms *= 2;
    if (redis->backoff_ms > BACKOFF_MAX_MS)
        redis->backoff_ms = BACKOFF_MAX_MS;
}

static void note_end(struct redis_embedded *redis, int status)
{
    char end[END_TEXT_SIZE];

    if (now_ms() - redis->started_at_ms >= BACKOFF_RESET_MS)
        redis->backoff_ms = BACKOFF_MIN_MS;
    redis_child_describe_end(&redis->child, status, end, sizeof(end));
    plan_restart(redis, "embedded redis ended", end);
}

int redis_embedded_tick(struct redis_embedded *redis)
{
    int status;

    if (redis->child.pid != 0) {
        if (!redis_child_reap(&redis->child, &status))
            return -1;
        note_end(redis, status);
    } else if (now_ms() >= redis->restart_at_ms) {
        if (start_child(redis) == 0) {
            log_write(LOG_LEVEL_WARN, "embedded redis restarted",
                      json_pack("{s:i}", "pid", (int)redis->child.pid));
            return -1;
        }
        plan_restart(redis, "embedded redis not restarted", strerror(errno));
    }
    int64_t left_ms = redis->restart_at_ms - now_ms();
    return left_ms > 0 ? (int)left_ms : 0;
}

static void end_child(struct redis_embedded *redis)
{
    int64_t deadline = now_ms() + STOP_TIMEOUT_MS;
    int status;

    kill(redis->child.pid, SIGTERM);
    while (!redis_child_reap(&redis->child, &status)) {
        if (now_ms() >= deadline) {
            log_write(LOG_LEVEL_WARN, "embedded redis killed",
                      json_pack("{s:i}", "after_ms", STOP_TIMEOUT_MS));
            kill(redis->child.pid, SIGKILL);
            deadline = INT64_MAX;
        }
        nap();
    }
}

void redis_embedded_stop(struct redis_embedded *redis)
{
    if (redis == NULL)
        return;
    if (redis->child.pid != 0)
        end_child(redis);
    if (redis->child.lock_fd >= 0)
        close(redis->child.lock_fd);
    if (redis->own_lock_fd >= 0)
        close(redis->own_lock_fd);
    free(redis);
}
