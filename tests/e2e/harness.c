/* The world of a test program: what it started, what it owns, and how its tests run. */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "harness_world.h"

enum { TOKEN_TEXT_LEN = 36, MEMORY_MIN = 1 << 30 };

struct run {
    struct world *world;
    const struct e2e_test *test;
    size_t mark;
    bool passed;
};

int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void nap_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};

    nanosleep(&t, NULL);
}

int64_t patience_ms(int64_t ms)
{
    const char *factor = getenv("E2E_PATIENCE");

    if (factor != NULL && atof(factor) >= 1)
        return (int64_t)((double)ms * atof(factor));
    return getenv("RLOCKD_WRAP") != NULL ? ms * 8 : ms;
}

const char *ttl_of(struct world *w, int ms)
{
    return text(w, "ttl_ms=%d", (int)patience_ms(ms));
}

struct patience patience_of(int64_t ms)
{
    return (struct patience){.left_ms = patience_ms(ms), .looked_ms = now_ms()};
}

bool patience_ends(struct patience *patience)
{
    int64_t now = now_ms(), passed_ms = now - patience->looked_ms;

    patience->left_ms -= passed_ms < LOOK_MS ? passed_ms : LOOK_MS;
    patience->looked_ms = now;
    return patience->left_ms < 0;
}

bool patience_fails(struct patience *patience)
{
    if (!patience_ends(patience))
        return false;
    int64_t late = late_ms(), excused_ms = late < EXCUSED_MAX_MS ? late : EXCUSED_MAX_MS;

    patience->left_ms += excused_ms - patience->excused_ms;
    patience->excused_ms = excused_ms;
    return patience->left_ms < 0;
}

void fail_at(const char *file, int line, const char *format, ...)
{
    char message[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    fprintf(stderr, "%s\n", message);
    _fail(file, line);
    abort();
}

void world_complain(struct world *w, const char *format, ...)
{
    char message[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    fprintf(stderr, "%s\n", message);
    w->inside->complaints++;
}

void world_defer(struct world *w, void (*undo)(void *thing), void *thing)
{
    struct world_inside *in = w->inside;

    if (in->undos_len == in->undos_max) {
        in->undos_max = in->undos_max * 2 + 64;
        in->undos = realloc(in->undos, in->undos_max * sizeof(*in->undos));
        if (in->undos == NULL)
            abort();
    }
    in->undos[in->undos_len++] = (struct undo){undo, thing};
}

static void world_unwind(struct world *w, size_t mark)
{
    struct world_inside *in = w->inside;

    while (in->undos_len > mark) {
        struct undo undo = in->undos[--in->undos_len];
        undo.undo(undo.thing);
    }
}

void *world_alloc(struct world *w, size_t len)
{
    void *memory = calloc(1, len);

    if (memory == NULL)
        abort();
    world_defer(w, free, memory);
    return memory;
}

const char *text(struct world *w, const char *format, ...)
{
    char *out = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&out, format, args) < 0)
        abort();
    va_end(args);
    world_defer(w, free, out);
    return out;
}

void skip_where(struct world *w, bool is_so)
{
    if (!is_so)
        return;
    w->inside->skipped = true;
    skip();
}

void skip_on_masters(struct world *w)
{
    skip_where(w, redis_has_masters());
}

void skip_on_cluster(struct world *w)
{
    skip_where(w, redis_is_cluster());
}

void skip_without_tls(struct redis *redis)
{
    skip_where(redis->world, redis_do(redis, "CONFIG GET tls-port")->elements == 0);
}

void skip_without_shards(struct redis *redis)
{
    skip_where(redis->world,
               redis_do(redis, "PUBSUB SHARDCHANNELS")->type == REDIS_REPLY_ERROR);
}

void skip_without_source_address(struct redis *redis)
{
    skip_where(redis->world, redis_do(redis, "CONFIG GET bind-source-addr")->elements == 0);
}

void skip_with_slots(struct world *w)
{
    skip_where(w, getenv("E2E_SCRIPT_SLOTS") != NULL);
}

const char *token_new(struct world *w)
{
    struct world_inside *in = w->inside;
    char uuid[TOKEN_TEXT_LEN + 2];
    int fd = open("/proc/sys/kernel/random/uuid", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, uuid, TOKEN_TEXT_LEN) != TOKEN_TEXT_LEN)
        FAIL("cannot make a token");
    close(fd);
    uuid[TOKEN_TEXT_LEN] = '\0';
    json_array_append_new(in->tokens, json_string(uuid));
    return text(w, "%s", uuid);
}

/* Files of the tests are in memory where there is room: a disk that others write to stops
 * Redis, which writes its append-only file, for seconds. A unix socket has to fit below it in
 * 108 bytes.
 */
static const char *folder_for_tests(void)
{
    static const char memory[] = "/dev/shm";
    const char *asked_for = getenv("TMPDIR");
    struct statvfs room;

    if (asked_for != NULL && strlen(asked_for) < 40)
        return asked_for;
    if (access(memory, W_OK) == 0 && statvfs(memory, &room) == 0 &&
        room.f_bavail >= MEMORY_MIN / room.f_frsize)
        return memory;
    return "/tmp";
}

static void world_new(struct world *w, const struct e2e_plan *plan)
{
    memset(w, 0, sizeof(*w));
    w->inside = calloc(1, sizeof(*w->inside));
    if (w->inside == NULL)
        abort();
    w->inside->plan = plan;
    w->inside->tokens = json_array();
    snprintf(w->dir, sizeof(w->dir), "%s/rlockd-e2e-XXXXXX", folder_for_tests());
    if (mkdtemp(w->dir) == NULL)
        abort();
}

static void world_free(struct world *w)
{
    world_unwind(w, 0);
    if (getenv("E2E_KEEP") == NULL)
        dir_remove(w->dir);
    else
        print_message("kept %s\n", w->dir);
    json_decref(w->inside->tokens);
    free(w->inside->undos);
    free(w->inside);
}

static void test_go(void **state)
{
    struct run *run = *state;

    if (!run->world->inside->started)
        skip();
    if (run->world->inside->plan->needs_one_server)
        skip_on_cluster(run->world);
    run->test->run(run->world);
    run->passed = true;
}

static int test_begin(void **state)
{
    struct run *run = *state;

    run->mark = run->world->inside->undos_len;
    run->world->inside->skipped = false;
    late_test_begins();
    return 0;
}

static int test_end(void **state)
{
    struct run *run = *state;
    struct world_inside *in = run->world->inside;

    if (!in->started)
        return 0;
    world_check_logs(run->world);
    if ((!run->passed && !in->skipped) || in->complaints > 0) {
        world_show_logs(run->world);
        late_tell();
    }
    world_unwind(run->world, run->mark);
    if (in->complaints == 0)
        return 0;
    in->complaints = 0;
    return -1;
}

/* The first and the last test of every program: what the plan starts, and its end. */
static void servers_start(void **state)
{
    struct run *run = *state;
    struct world *w = run->world;
    const struct e2e_plan *plan = w->inside->plan;

    w->inside->started = true;
    if (!plan->without_redis)
        w->redis = redis_start(w, NULL);
    if (plan->front_ends > 0)
        w->a = front_start_plan(w, plan->flags);
    if (plan->front_ends > 1)
        w->b = front_start_plan(w, plan->flags);
    run->passed = true;
}

static int servers_started(void **state)
{
    struct run *run = *state;

    if (run->passed)
        return 0;
    world_show_logs(run->world);
    late_tell();
    run->world->inside->started = false;
    return -1;
}

static void servers_stop(void **state)
{
    struct run *run = *state;
    struct world *w = run->world;

    if (!w->inside->started)
        skip();
    if (w->a != NULL)
        front_stop(w->a);
    if (w->b != NULL)
        front_stop(w->b);
    run->passed = true;
}

int e2e_run(const struct e2e_plan *plan)
{
    struct world world;
    const char *filter = getenv("E2E_FILTER");
    struct run *runs = calloc(plan->tests_len + 2, sizeof(*runs));
    struct CMUnitTest *tests = calloc(plan->tests_len + 2, sizeof(*tests));
    size_t len = 0;
    int failed;

    if (runs == NULL || tests == NULL)
        abort();
    signal(SIGPIPE, SIG_IGN);
    world_new(&world, plan);
    late_start();
    tests[len++] = (struct CMUnitTest){"servers_start", servers_start, NULL, servers_started,
                                       &runs[0]};
    for (size_t i = 0; i < plan->tests_len; i++) {
        const struct e2e_test *test = &plan->tests[i];

        if (filter != NULL && strstr(test->name, filter) == NULL)
            continue;
        runs[len].test = test;
        tests[len] = (struct CMUnitTest){test->name, test_go, test_begin, test_end, &runs[len]};
        len++;
    }
    tests[len] = (struct CMUnitTest){"servers_stop", servers_stop, test_begin, test_end,
                                     &runs[len]};
    len++;
    for (size_t i = 0; i < len; i++)
        runs[i].world = &world;
    failed = _cmocka_run_group_tests(plan->name, tests, len, NULL, NULL);
    late_stop();
    world_free(&world);
    free(tests);
    free(runs);
    return failed;
}
