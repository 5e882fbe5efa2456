/* rlockd processes: each on a port of its own, stopped with SIGTERM, their logs checked.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "harness_world.h"

enum {
    START_MS = 10000,
    STOP_MS = 8000,
    FLAGS_MAX = 40,
    LOG_TAIL_LEN = 3000,
    METRICS_MS = 5000
};

int front_port(struct front *fe)
{
    json_t *line = front_log_find(fe, "listening");
    const char *listen = json_string_value(json_object_get(line, "listen"));
    const char *colon = listen != NULL ? strrchr(listen, ':') : NULL;
    int port = colon != NULL ? atoi(colon + 1) : 0;

    json_decref(line);
    return port;
}

/* Binds a free port of 127.0.0.1 and keeps it, without listening: the kernel gives that port to
 * no other process while the front end is down, yet lets the front end itself listen there.
 * Without that, a killed front end's port soon belongs to another test's server. */
static int port_reserve(struct front *fe)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    const int on = 1;

    fe->reserved_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fe->reserved_fd < 0 ||
        setsockopt(fe->reserved_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fe->reserved_fd, (struct sockaddr *)&address, len) != 0 ||
        getsockname(fe->reserved_fd, (struct sockaddr *)&address, &len) != 0)
        FAIL("no port for rlockd: %s", strerror(errno));
    return ntohs(address.sin_port);
}

static void front_forget(struct front *fe)
{
    struct world_inside *in = fe->world->inside;

    for (size_t i = 0; i < in->fronts_len; i++) {
        if (in->fronts[i] == fe)
            in->fronts[i] = in->fronts[--in->fronts_len];
    }
}

static void front_undo(void *thing)
{
    struct front *fe = thing;

    if (!fe->ended) {
        int code;

        child_signal(fe->child, SIGTERM);
        code = child_wait(fe->child, STOP_MS);
        if (code != 0)
            world_complain(fe->world, "rlockd %d ended with %d after SIGTERM (-1: not at all)",
                           child_pid(fe->child), code);
    }
    front_forget(fe);
    close(fe->reserved_fd);
    free(fe);
}

static struct front *front_launch_list(struct world *w, const char *const *flags)
{
    struct front *fe = calloc(1, sizeof(*fe));
    struct world_inside *in = w->inside;
    /* Raw requests of the tests say `Host: x`. */
    const char *args[FLAGS_MAX] = {"--server-names", "x", "--listen"};
    size_t len = 3;

    if (fe == NULL)
        abort();
    args[len++] = text(w, "127.0.0.1:%d", port_reserve(fe));
    while (flags != NULL && *flags != NULL && len + 1 < FLAGS_MAX)
        args[len++] = *flags++;
    args[len] = NULL;
    fe->world = w;
    fe->child = rlockd_start(w, args, NULL);
    world_defer(w, front_undo, fe);
    if (in->fronts_len == FRONTS_MAX)
        FAIL("too many front ends");
    in->fronts[in->fronts_len++] = fe;
    for (struct patience patience = patience_of(START_MS); fe->port == 0;) {
        if (child_wait(fe->child, 0) >= 0)
            FAIL("rlockd ended at once with %d:\n%s", child_wait(fe->child, 0), front_log(fe));
        if (patience_fails(&patience))
            FAIL("rlockd does not say where it listens:\n%s", front_log(fe));
        nap_ms(5);
        fe->port = front_port(fe);
    }
    return fe;
}

static void flags_collect(const char **flags, va_list args)
{
    size_t len = 0;

    while (len + 1 < FLAGS_MAX && (flags[len] = va_arg(args, const char *)) != NULL)
        len++;
    flags[len] = NULL;
}

struct front *front_launch(struct world *w, ...)
{
    const char *flags[FLAGS_MAX];
    va_list args;

    va_start(args, w);
    flags_collect(flags, args);
    va_end(args);
    return front_launch_list(w, flags);
}

struct front *front_start(struct world *w, ...)
{
    const char *flags[FLAGS_MAX];
    struct front *fe;
    va_list args;

    va_start(args, w);
    flags_collect(flags, args);
    va_end(args);
    fe = front_launch_list(w, flags);
    wait_until(front_ready(fe), START_MS);
    return fe;
}

struct front *front_start_plan(struct world *w, const char *const *flags)
{
    const char *all[FLAGS_MAX] = {"--redis", w->redis->url};
    struct front *fe;
    size_t len = 2;

    while (flags != NULL && *flags != NULL && len + 1 < FLAGS_MAX)
        all[len++] = *flags++;
    fe = front_launch_list(w, all);
    wait_until(front_ready(fe), START_MS);
    return fe;
}

bool front_ready(struct front *fe)
{
    struct reply *r = http(fe, "GET", "/readyz", NULL);

    return r->status == 200 && reply_get(r, "redis.detail") == NULL;
}

void front_stop(struct front *fe)
{
    int code;

    child_signal(fe->child, SIGTERM);
    code = child_wait(fe->child, STOP_MS);
    fe->ended = code >= 0;
    if (code != 0)
        FAIL("rlockd ended with %d after SIGTERM (-1: not at all)", code);
}

void front_kill(struct front *fe)
{
    child_signal(fe->child, SIGKILL);
    if (child_wait(fe->child, STOP_MS) != 128 + SIGKILL)
        FAIL("rlockd had ended before it was killed");
    fe->ended = true;
}

const char *front_log(struct front *fe)
{
    return child_stderr(fe->child);
}

json_t *front_log_find(struct front *fe, const char *msg)
{
    char *log = strdup(front_log(fe)), *save = NULL;
    json_t *found = NULL;

    for (char *line = strtok_r(log, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_t *entry = json_loads(line, 0, NULL);
        const char *said = json_string_value(json_object_get(entry, "msg"));

        if (said == NULL || strcmp(said, msg) != 0) {
            json_decref(entry);
            continue;
        }
        json_decref(found);
        found = entry;
    }
    free(log);
    return found;
}

static double sum_samples(const char *page, const char *family, const char *labels)
{
    size_t family_len = strlen(family);
    double sum = 0;

    for (const char *line = page; line != NULL; line = strchr(line, '\n')) {
        const char *value, *end;

        line += *line == '\n';
        if (strncmp(line, family, family_len) != 0 || strchr("{ ", line[family_len]) == NULL)
            continue;
        end = strchrnul(line, '\n');
        value = memrchr(line, ' ', (size_t)(end - line));
        if (labels != NULL &&
            memmem(line, (size_t)(end - line), labels, strlen(labels)) == NULL)
            continue;
        sum += strtod(value, NULL);
    }
    return sum;
}

static double unix_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)(now.tv_nsec / 1000) / 1e6;
}

double front_metric(struct front *fe, const char *family, const char *labels)
{
    double asked = unix_time();
    struct reply *reply;

    do { /* a page is made once a second, so the first page may be older than the question */
        reply = http(fe, "GET", "/metrics", NULL);
        expect_status(reply, 200);
        if (sum_samples(reply->text, "rlockd_metrics_timestamp_seconds", NULL) >= asked - 5e-7)
            break;
        nap_ms(50);
    } while (unix_time() - asked < (double)patience_ms(METRICS_MS) / 1e3);
    return sum_samples(reply->text, family, labels);
}

void world_show_logs(struct world *w)
{
    for (size_t i = 0; i < w->inside->fronts_len; i++) {
        struct front *fe = w->inside->fronts[i];
        const char *log = front_log(fe);
        size_t len = strlen(log);
        size_t skip_len = len > LOG_TAIL_LEN ? len - LOG_TAIL_LEN : 0;

        /* cmocka's own printing cuts at 1024 bytes. */
        fprintf(stderr, "---- rlockd %d, port %d, the end of its log:\n%s----\n",
                child_pid(fe->child), fe->port, log + skip_len);
    }
}

static void line_check(struct world *w, const char *line)
{
    json_t *entry;
    size_t i;
    json_t *token;

    /* What valgrind has to say comes on the same stream. */
    if (getenv("RLOCKD_WRAP") != NULL && strncmp(line, "==", 2) == 0)
        return;
    entry = json_loads(line, 0, NULL);
    if (!json_is_object(entry))
        world_complain(w, "a log line that is no JSON object: %s", line);
    /* Tests forbid commands and channels to the user of Redis. */
    if (strstr(line, "redis: unexpected error") != NULL && strstr(line, "NOPERM") == NULL &&
        strstr(line, "user executing") == NULL && strstr(line, "ACL failure") == NULL)
        world_complain(w, "an error of Redis that no code expects: %s", line);
    json_decref(entry);
    json_array_foreach(w->inside->tokens, i, token) {
        if (strcasestr(line, json_string_value(token)) != NULL)
            world_complain(w, "a log line that holds a token: %s", line);
    }
}

/* What has come since the last check, whole lines only. */
static void log_check(struct world *w, struct front *fe)
{
    const char *log = front_log(fe);
    const char *end = strrchr(log, '\n');
    int before = w->inside->complaints;
    char *fresh, *save = NULL;

    if (end == NULL || (size_t)(end - log) < fe->log_checked_len)
        return;
    fresh = strndup(log + fe->log_checked_len, (size_t)(end - log) - fe->log_checked_len);
    fe->log_checked_len = (size_t)(end - log) + 1;
    for (char *line = strtok_r(fresh, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (w->inside->complaints < before + 5)
            line_check(w, line);
    }
    free(fresh);
}

void world_check_logs(struct world *w)
{
    for (size_t i = 0; i < w->inside->fronts_len; i++)
        log_check(w, w->inside->fronts[i]);
}
