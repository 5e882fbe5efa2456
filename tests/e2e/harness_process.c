/* Child processes: they die with the test program, and their output stays in files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness_world.h"

extern char **environ;

enum { ENV_MAX = 256, ARGS_MAX = 64, STOP_MS = 5000 };

struct child {
    struct world *world;
    pid_t pid;
    int exit_code; /* -1 while it runs */
    char out_path[128], err_path[128];
};

static const char *const ENV_PREFIX = "RLOCKD_";

static bool env_overridden(const char *entry, const char *const *more)
{
    size_t name_len = strcspn(entry, "=") + 1;

    for (; more != NULL && *more != NULL; more++) {
        if (strncmp(*more, entry, name_len) == 0)
            return true;
    }
    return strncmp(entry, ENV_PREFIX, strlen(ENV_PREFIX)) == 0;
}

static void env_build(const char **out, const char *const *more)
{
    size_t len = 0;

    for (char **entry = environ; *entry != NULL && len + 1 < ENV_MAX; entry++) {
        if (!env_overridden(*entry, more))
            out[len++] = *entry;
    }
    for (; more != NULL && *more != NULL && len + 1 < ENV_MAX; more++)
        out[len++] = *more;
    out[len] = NULL;
}

static void child_become(const struct child *child, const char *const *argv,
                         const char *const *env, pid_t parent)
{
    int in = open("/dev/null", O_RDONLY);
    int out = open(child->out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int err = open(child->err_path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || in < 0 || out < 0 || err < 0)
        _exit(126);
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    signal(SIGPIPE, SIG_DFL);
    environ = (char **)(uintptr_t)env;
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void child_undo(void *thing)
{
    struct child *child = thing;

    if (child->exit_code < 0) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
    }
    free(child);
}

/* A server that is to use TLS needs the authority. */
static const char *const *with_authority(struct world *w, const char *const *argv,
                                         const char *const *env)
{
    const char **more = world_alloc(w, ENV_MAX * sizeof(*more));
    bool is_tls = false;
    size_t len = 0;

    for (; *argv != NULL; argv++)
        is_tls |= strstr(*argv, "rediss") != NULL;
    for (; env != NULL && *env != NULL && len + 2 < ENV_MAX; env++) {
        is_tls |= strstr(*env, "rediss") != NULL;
        more[len++] = *env;
    }
    if (is_tls)
        more[len++] = text(w, "RLOCKD_REDIS_TLS_CA=%s/redis-ca.pem", w->dir);
    return more;
}

struct child *child_start(struct world *w, const char *name, const char *const *argv,
                          const char *const *env)
{
    struct child *child = calloc(1, sizeof(*child));
    const char *child_env[ENV_MAX];
    pid_t parent = getpid();
    int n = w->inside->children_len++;

    if (child == NULL)
        abort();
    child->world = w;
    child->exit_code = -1;
    snprintf(child->out_path, sizeof(child->out_path), "%s/%s-%d.out", w->dir, name, n);
    snprintf(child->err_path, sizeof(child->err_path), "%s/%s-%d.err", w->dir, name, n);
    env_build(child_env, redis_is_tls() ? with_authority(w, argv, env) : env);
    child->pid = fork();
    if (child->pid < 0)
        FAIL("fork: %s", strerror(errno));
    if (child->pid == 0)
        child_become(child, argv, child_env, parent);
    late_watch(child->pid);
    world_defer(w, child_undo, child);
    return child;
}

int child_pid(const struct child *child)
{
    return child->pid;
}

/* All its threads; or it has ended. */
static bool child_has_stopped(const struct child *child)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WEXITED | WNOWAIT | WNOHANG) ==
               0 &&
           info.si_pid == child->pid;
}

void child_signal(struct child *child, int signo)
{
    if (child->exit_code >= 0)
        return;
    kill(child->pid, signo);
    if (signo == SIGSTOP)
        wait_until(child_has_stopped(child), STOP_MS);
}

int child_wait(struct child *child, int64_t ms)
{
    struct patience patience = patience_of(ms);

    while (child->exit_code < 0) {
        int status;

        if (waitpid(child->pid, &status, WNOHANG) == child->pid) {
            child->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            break;
        }
        if (patience_ends(&patience))
            return -1;
        nap_ms(5);
    }
    return child->exit_code;
}

const char *child_stdout(struct child *child)
{
    char *content = file_read(child->out_path);

    world_defer(child->world, free, content);
    return content;
}

const char *child_stderr(struct child *child)
{
    char *content = file_read(child->err_path);

    world_defer(child->world, free, content);
    return content;
}

const char *rlockd_binary(void)
{
    const char *binary = getenv("RLOCKD_BIN");

    return binary != NULL ? binary : "build/rlockd";
}

struct child *rlockd_start(struct world *w, const char *const *args, const char *const *env)
{
    const char *argv[ARGS_MAX];
    const char *wrap = getenv("RLOCKD_WRAP");
    size_t len = 0;

    if (wrap != NULL) {
        char *words = strdup(wrap), *save = NULL;

        world_defer(w, free, words);
        for (char *word = strtok_r(words, " ", &save); word != NULL && len < ARGS_MAX / 2;
             word = strtok_r(NULL, " ", &save))
            argv[len++] = word;
    }
    argv[len++] = rlockd_binary();
    while (*args != NULL && len + 1 < ARGS_MAX)
        argv[len++] = *args++;
    argv[len] = NULL;
    return child_start(w, "rlockd", argv, env);
}

char *file_read(const char *path)
{
    FILE *file = fopen(path, "re");
    char *content = NULL;
    size_t len = 0;

    if (file == NULL)
        return strdup("");
    /* No NUL can come from a text file; what follows one would be lost. */
    if (getdelim(&content, &len, '\0', file) < 0) {
        free(content);
        content = strdup("");
    }
    fclose(file);
    return content;
}

void dir_remove(const char *dir)
{
    DIR *listing = opendir(dir);
    struct dirent *entry;

    if (listing == NULL)
        return;
    while ((entry = readdir(listing)) != NULL) {
        char path[512];

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (unlink(path) != 0)
            dir_remove(path);
    }
    closedir(listing);
    rmdir(dir);
}
