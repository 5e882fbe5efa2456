/* The default: a redis-server of rlockd's own in the data directory. */
#include "harness.h"

#include <signal.h>
#include <sys/stat.h>

enum { RECOVER_MS = 10000 };

/* The embedded Redis, seen from outside. */
struct inner {
    const char *dir, *socket;
};

static struct inner inner_at(struct world *w, const char *name)
{
    struct inner inner;

    inner.dir = text(w, "%s/%s", w->dir, name);
    inner.socket = text(w, "%s/redis.sock", inner.dir);
    return inner;
}

/* One command; the text of its reply, NULL when nobody answers. */
static const char *inner_ask(struct world *w, const struct inner *inner, const char *command)
{
    redisContext *db = redisConnectUnix(inner->socket);
    redisReply *reply = db != NULL && db->err == 0 ? redisCommand(db, command) : NULL;
    const char *answer = NULL;

    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        answer = text(w, "%s", reply->element[1]->str);
    else if (reply != NULL && reply->str != NULL)
        answer = text(w, "%s", reply->str);
    if (reply != NULL)
        freeReplyObject(reply);
    if (db != NULL)
        redisFree(db);
    return answer;
}

static pid_t inner_pid(struct world *w, const struct inner *inner)
{
    const char *info = inner_ask(w, inner, "INFO server");
    const char *field = info != NULL ? strstr(info, "process_id:") : NULL;

    return field != NULL ? atoi(field + strlen("process_id:")) : 0;
}

/* Gone, or a zombie that nobody has waited for yet. */
static bool is_gone(pid_t pid)
{
    char path[64], line[512] = "";
    const char *state;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return true;
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    state = strrchr(line, ')');
    return state == NULL || state[2] == 'Z' || state[2] == 'X';
}

static void test_default_is_safe(struct world *w)
{
    struct inner inner = inner_at(w, "safe");
    struct front *fe = front_start(w, "--data-dir", inner.dir, NULL);
    struct stat status;

    expect_status(lock_put(fe, "first", token_new(w), NULL), 201);
    assert_string_equal(inner_ask(w, &inner, "PING"), "PONG");
    assert_string_equal(inner_ask(w, &inner, "CONFIG GET appendonly"), "yes");
    assert_string_equal(inner_ask(w, &inner, "CONFIG GET maxmemory-policy"), "noeviction");
    assert_string_equal(inner_ask(w, &inner, "CONFIG GET port"), "0");
    assert_int_equal(stat(inner.socket, &status), 0);
    assert_int_equal(status.st_mode & 0077, 0);
    assert_int_equal(stat(inner.dir, &status), 0);
    assert_int_equal(status.st_mode & 0077, 0);
}

static void test_stop_ends_redis(struct world *w)
{
    struct inner inner = inner_at(w, "stop");
    struct front *fe = front_start(w, "--data-dir", inner.dir, NULL);
    pid_t pid = inner_pid(w, &inner);

    assert_true(pid > 0);
    front_stop(fe);
    assert_true(is_gone(pid));
    assert_null(inner_ask(w, &inner, "PING"));
}

static void test_restart_of_all_keeps_a_held_lock(struct world *w)
{
    struct inner inner = inner_at(w, "keep");
    struct front *fe = front_start(w, "--data-dir", inner.dir, NULL);
    const char *token = token_new(w);
    struct reply *first = lock_put(fe, "kept", token, "ttl_ms=600000&note=n");
    struct reply *r;

    expect_status(first, 201);
    front_stop(fe);
    fe = front_start(w, "--data-dir", inner.dir, NULL);
    r = lock_put(fe, "kept", token, NULL);
    expect_status(r, 200);
    expect_int(r, "fencing_token", reply_int(first, "fencing_token"));
    expect_str(r, "note", "n");
    expect_problem(lock_put(fe, "kept", token_new(w), NULL), 423, "locked");
    expect_status(lock_release(fe, "kept", token), 200);
}

static void test_dead_redis_is_restarted(struct world *w)
{
    struct inner inner = inner_at(w, "dead");
    struct front *fe = front_start(w, "--data-dir", inner.dir, NULL);
    const char *token = token_new(w);
    pid_t pid = inner_pid(w, &inner), next;
    struct call *call;

    expect_status(lock_put(fe, "alive", token, "ttl_ms=600000"), 201);
    call = call_put(fe, "alive", token_new(w), "wait_ms=50000");
    wait_until(waiter_count(fe, "alive") == 1, 5000);
    for (int i = 0; i < 2; i++) {
        kill(pid, SIGKILL);
        wait_until((next = inner_pid(w, &inner)) > 0 && next != pid, RECOVER_MS);
        wait_until(front_ready(fe), RECOVER_MS);
        expect_status(lock_put(fe, "alive", token, NULL), 200);
        pid = next;
    }
    expect_status(lock_release(fe, "alive", token), 200);
    expect_status(call_await(call, 5000), 201);
}

/* A front end that drains serves every request for as long as --drain-delay-ms. */
static void test_redis_is_looked_after_while_draining(struct world *w)
{
    struct inner inner = inner_at(w, "drain");
    const char *delay = text(w, "%d", (int)patience_ms(20000));
    struct front *fe = front_start(w, "--data-dir", inner.dir, "--drain-delay-ms", delay, NULL);
    pid_t pid = inner_pid(w, &inner);

    child_signal(fe->child, SIGTERM);
    wait_until(http(fe, "GET", "/readyz", NULL)->status == 503, RECOVER_MS);
    kill(pid, SIGKILL);
    wait_until(inner_pid(w, &inner) > 0 && inner_pid(w, &inner) != pid, RECOVER_MS);
    wait_until(lock_put(fe, "drained", token_new(w), "ttl_ms=1000")->status == 201, RECOVER_MS);
    child_signal(fe->child, SIGHUP);
    wait_until(front_log_find(fe, "nothing to reload: no API tokens") != NULL, RECOVER_MS);
    front_kill(fe);
}

static void test_second_server_is_refused(struct world *w)
{
    struct inner inner = inner_at(w, "taken");
    struct front *fe = front_start(w, "--data-dir", inner.dir, NULL);
    const char *const args[] = {"--listen", "127.0.0.1:0", "--data-dir", inner.dir, NULL};
    struct child *second = rlockd_start(w, args, NULL);

    assert_int_equal(child_wait(second, 5000), 1);
    assert_non_null(strstr(child_stderr(second), inner.dir));
    assert_non_null(strstr(child_stderr(second), "another rlockd"));
    expect_status(lock_put(fe, "mine", token_new(w), NULL), 201);
    front_stop(fe);
    front_start(w, "--data-dir", inner.dir, NULL);
}

static void test_killed_server_takes_its_redis_along(struct world *w)
{
    struct inner inner = inner_at(w, "killed");
    const char *token = token_new(w);

    for (int i = 0; i < 2; i++) {
        struct front *fe = front_start(w, "--data-dir", inner.dir, NULL);
        pid_t pid = inner_pid(w, &inner);
        struct reply *r = lock_put(fe, "outlive", token, "ttl_ms=600000");

        expect_status(r, i == 0 ? 201 : 200);
        front_kill(fe);
        /* The next one starts at once, and waits for the old Redis by itself. */
        fe = front_start(w, "--data-dir", inner.dir, NULL);
        assert_true(is_gone(pid));
        assert_true(inner_pid(w, &inner) != pid);
        expect_status(lock_put(fe, "outlive", token, NULL), 200);
        front_stop(fe);
    }
}

static void test_stalled_redis_is_ended_at_stop(struct world *w)
{
    struct inner inner = inner_at(w, "stalled");
    struct front *fe = front_start(w, "--data-dir", inner.dir, NULL);
    pid_t pid = inner_pid(w, &inner);

    kill(pid, SIGSTOP);
    child_signal(fe->child, SIGTERM);
    /* A stopped Redis cannot end by itself; rlockd ends all the same, and leaves none behind.
     */
    assert_int_equal(child_wait(fe->child, 15000), 0);
    fe->ended = true;
    wait_until(is_gone(pid), 2000);
}

static void test_no_redis_server_installed(struct world *w)
{
    const char *dir = text(w, "%s/none", w->dir);
    const char *const args[] = {"--listen", "127.0.0.1:0", "--data-dir", dir, NULL};
    const char *const env[] = {"PATH=/nonexistent", NULL};
    struct child *child;

    if (getenv("RLOCKD_WRAP") != NULL)
        return; /* its program would not be found either */
    child = rlockd_start(w, args, env);
    assert_int_equal(child_wait(child, 15000), 1);
    assert_non_null(strstr(child_stderr(child), "redis-server"));
}

static void test_unusable_data_dir(struct world *w)
{
    const char *file = text(w, "%s/file", w->dir);
    const char *long_dir = text(w, "%s/%0120d", w->dir, 0);
    const char *const dirs[] = {file, long_dir};
    FILE *out = fopen(file, "we");

    assert_non_null(out);
    fclose(out);
    /* A file, and a directory whose socket would not fit into its address. */
    for (size_t i = 0; i < COUNT_OF(dirs); i++) {
        const char *const args[] = {"--listen", "127.0.0.1:0", "--data-dir", dirs[i], NULL};
        struct child *child = rlockd_start(w, args, NULL);

        assert_true(child_wait(child, 5000) >= 1);
        assert_true(strlen(child_stderr(child)) > 0);
    }
}

int main(void)
{
    static const struct e2e_test tests[] = {
        E2E_TEST(test_default_is_safe),
        E2E_TEST(test_stop_ends_redis),
        E2E_TEST(test_restart_of_all_keeps_a_held_lock),
        E2E_TEST(test_dead_redis_is_restarted),
        E2E_TEST(test_redis_is_looked_after_while_draining),
        E2E_TEST(test_second_server_is_refused),
        E2E_TEST(test_killed_server_takes_its_redis_along),
        E2E_TEST(test_stalled_redis_is_ended_at_stop),
        E2E_TEST(test_no_redis_server_installed),
        E2E_TEST(test_unusable_data_dir),
    };
    struct e2e_plan plan = {.name = "embedded", E2E_TESTS(tests), .without_redis = true};

    return e2e_run(&plan);
}
