/* The fork of redis-server, its signals, and the pipe of its log. */
#include "storage/redis/child.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROBE_TIMEOUT_MS = 500, LOG_TAIL_SIZE = 4096, LOG_LINE_SIZE = 256, LOCK_FD = 3 };

static int find_on_path(const char *name, char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    struct stat info;

    if (path == NULL)
        path = "/usr/local/bin:/usr/bin:/bin";
    while (*path != '\0') {
        int len = (int)strcspn(path, ":");
        int n = snprintf(out, PATH_MAX, "%.*s/%s", len, path, name);
        if (len > 0 && n < PATH_MAX && access(out, X_OK) == 0 && stat(out, &info) == 0 &&
            S_ISREG(info.st_mode))
            return 0;
        path += len + (path[len] == ':');
    }
    return -1;
}

int redis_child_find_executable(struct redis_child *child)
{
    /* Server and checker of its data are one program that goes by argv[0]. Debian has the
     * program in redis-tools and valkey-tools, and only the server's name in redis-server and
     * valkey-server, packages that also start a service. */
    static const struct {
        const char *file, *name;
    } programs[] = {{"redis-server", "redis-server"},
                    {"valkey-server", "valkey-server"},
                    {"redis-check-rdb", "redis-server"},
                    {"valkey-check-rdb", "valkey-server"}};

    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        if (find_on_path(programs[i].file, child->executable) == 0) {
            child->name = programs[i].name;
            return 0;
        }
    }
    return -1;
}

/* Between fork and exec in a process with threads: only async-signal-safe calls. */
static _Noreturn void run(const struct redis_child *child, const char *const argv[],
                          pid_t parent)
{
    static const char exec_failed[] = "rlockd: redis-server could not be executed\n";
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        sigaction(number, &standard, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);

    /* A Ctrl-C in the terminal goes to a whole process group: it must reach rlockd only, which
     * still needs Redis while it drains. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it ended before the line above */
        _exit(0);

    umask(077);
    if (child->lock_fd != LOCK_FD)
        dup2(child->lock_fd, LOCK_FD);
    fcntl(LOCK_FD, F_SETFD, 0);
    /* What Redis says before it opens its log, on settings that it does not like, goes there
     * too. */
    int null_fd = open("/dev/null", O_RDONLY);
    int log_fd = open(child->log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    dup2(null_fd, STDIN_FILENO);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    closefrom(LOCK_FD + 1);

    execv(child->executable, (char *const *)(uintptr_t)argv);
    if (write(STDERR_FILENO, exec_failed, sizeof(exec_failed) - 1) < 0)
        _exit(126);
    _exit(127);
}

int redis_child_start(struct redis_child *child)
{
    /* clang-format off */
    const char *const argv[] = {
        child->name,
        "--port", "0",
        "--unixsocket", child->socket_path,
        "--unixsocketperm", "700",
        "--dir", child->directory,
        "--logfile", child->log_path,
        "--appendonly", "yes",
        "--appendfsync", "everysec",
        "--save", "",
        "--maxmemory-policy", "noeviction",
        NULL,
    };
    /* clang-format on */
    struct stat info;
    sigset_t all, before;
    pid_t parent = getpid();

    child->log_start = stat(child->log_path, &info) == 0 ? info.st_size : 0;
    /* No handler of rlockd's may run in the child. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        run(child, argv, parent);
    int fork_errno = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = fork_errno;
    if (pid < 0)
        return -1;
    child->pid = pid;
    return 0;
}

bool redis_child_reap(struct redis_child *child, int *status)
{
    pid_t pid = waitpid(child->pid, status, WNOHANG);

    if (pid == 0)
        return false;
    if (pid < 0)
        *status = 0; /* ECHILD: SIGCHLD is set to be ignored */
    child->pid = 0;
    return true;
}

/* Its last log line as printable ASCII, so that it may go into any log; empty: none. */
static void last_log_line(const struct redis_child *child, char out[LOG_LINE_SIZE])
{
    char tail[LOG_TAIL_SIZE];
    size_t out_len = 0;

    out[0] = '\0';
    int fd = open(child->log_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    off_t size = lseek(fd, 0, SEEK_END);
    off_t start = size - child->log_start > LOG_TAIL_SIZE ? size - LOG_TAIL_SIZE
                                                          : child->log_start;
    ssize_t end = pread(fd, tail, sizeof(tail), start);
    close(fd);
    while (end > 0 && (tail[end - 1] == '\n' || tail[end - 1] == ' '))
        end--;
    ssize_t begin = end;
    while (begin > 0 && tail[begin - 1] != '\n')
        begin--;
    for (ssize_t i = begin; i < end && out_len + 1 < LOG_LINE_SIZE; i++)
        out[out_len++] = tail[i] >= ' ' && tail[i] <= '~' ? tail[i] : '?';
    out[out_len] = '\0';
}

void redis_child_describe_end(const struct redis_child *child, int status, char *out,
                              size_t out_size)
{
    char line[LOG_LINE_SIZE];

    last_log_line(child, line);
    snprintf(out, out_size, "%s %d%s%s",
             WIFSIGNALED(status) ? "killed by signal" : "exit status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
             line[0] != '\0' ? "; the last line of its log: " : "", line);
}

enum redis_child_state redis_child_probe(const struct redis_child *child)
{
    struct timeval timeout = {.tv_usec = PROBE_TIMEOUT_MS * 1000};
    enum redis_child_state state = REDIS_CHILD_NO_SOCKET;
    redisContext *context = redisConnectUnixWithTimeout(child->socket_path, timeout);

    if (context != NULL && context->err == 0) {
        redisReply *reply = NULL;
        if (redisSetTimeout(context, timeout) == REDIS_OK)
            reply = redisCommand(context, "PING");
        /* Any other error than LOADING is still the answer of a Redis that serves. */
        bool ready = reply != NULL && (reply->type != REDIS_REPLY_ERROR ||
                                       strncmp(reply->str, "LOADING", 7) != 0);
        state = ready ? REDIS_CHILD_READY : REDIS_CHILD_NOT_READY;
        if (reply != NULL)
            freeReplyObject(reply);
    }
    if (context != NULL)
        redisFree(context);
    return state;
}
