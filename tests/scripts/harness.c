/* The private Redis of a script's test, its replies, texts and messages. */
#include "harness.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "storage/redis/reply.h"

enum { START_MS = 20000, SLOTS = 16384, ARGC_MAX = 64, KEPT_MAX = 4096, MESSAGES_MAX = 100 };

static struct {
    char dir[64], socket[80];
    pid_t pid;
    bool is_cluster, checks_slots, is_node;
    redisContext *db, *listener, *beside;
    redisReply *replies[KEPT_MAX]; /* of this test */
    char *texts[KEPT_MAX];
    size_t reply_count, text_count;
    const char *messages[MESSAGES_MAX]; /* published, and not asked for yet */
    size_t message_count, message_at;
} redis;

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* --- texts and replies of a test ------------------------------------------------------------
 */

static char *keep_text(char *kept)
{
    if (kept == NULL || redis.text_count == KEPT_MAX)
        abort();
    redis.texts[redis.text_count++] = kept;
    return kept;
}

const char *text(const char *format, ...)
{
    char *made = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&made, format, args) < 0)
        abort();
    va_end(args);
    return keep_text(made);
}

static redisReply *keep_reply(redisReply *reply, const redisContext *db)
{
    if (reply == NULL)
        fail_msg("redis-server: %s", db->errstr);
    if (redis.reply_count == KEPT_MAX)
        abort();
    redis.replies[redis.reply_count++] = reply;
    return reply;
}

int replies_free(void **state)
{
    (void)state;
    while (redis.reply_count > 0)
        freeReplyObject(redis.replies[--redis.reply_count]);
    while (redis.text_count > 0)
        free(redis.texts[--redis.text_count]);
    if (redis.listener != NULL)
        redisFree(redis.listener);
    if (redis.beside != NULL)
        redisFree(redis.beside);
    redis.listener = redis.beside = NULL;
    redis.message_count = redis.message_at = 0;
    return 0;
}

static void print_reply(FILE *out, const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        fprintf(out, "%lld", reply->integer);
        return;
    case REDIS_REPLY_NIL:
        fputs("nil", out);
        return;
    case REDIS_REPLY_ERROR:
        fprintf(out, "error: %s", redis_error_cause(reply->str));
        return;
    case REDIS_REPLY_ARRAY:
        fputc('[', out);
        for (size_t i = 0; i < reply->elements; i++) {
            fputs(i > 0 ? ", " : "", out);
            print_reply(out, reply->element[i]);
        }
        fputc(']', out);
        return;
    default:
        fwrite(reply->str, 1, reply->len, out);
    }
}

const char *reply_text(const redisReply *reply)
{
    char *printed = NULL;
    size_t len;
    FILE *out = open_memstream(&printed, &len);

    if (out == NULL)
        abort();
    print_reply(out, reply);
    fclose(out);
    return keep_text(printed);
}

redisReply *reply_at(const redisReply *reply, size_t at)
{
    if (reply->type != REDIS_REPLY_ARRAY || at >= reply->elements)
        fail_msg("no element %zu in %s", at, reply_text(reply));
    return reply->element[at];
}

int64_t reply_integer(const redisReply *reply)
{
    char *end;
    const char *printed = reply_text(reply);
    int64_t number = strtoll(printed, &end, 10);

    if (end == printed || *end != '\0')
        fail_msg("not an integer: %s", printed);
    return number;
}

/* `*` stands for any text, also for none. */
static bool matches(const char *pattern, const char *at)
{
    for (; *pattern != '*'; pattern++, at++) {
        if (*pattern != *at)
            return false;
        if (*pattern == '\0')
            return true;
    }
    for (;; at++) {
        if (matches(pattern + 1, at))
            return true;
        if (*at == '\0')
            return false;
    }
}

void expect_text_at(const char *printed, const char *pattern, const char *file, int line)
{
    if (!matches(pattern, printed)) {
        print_error("%s:%d: expected \"%s\", got \"%s\"\n", file, line, pattern, printed);
        _fail(file, line);
    }
}

void expect_at(const redisReply *reply, const char *pattern, const char *file, int line)
{
    expect_text_at(reply_text(reply), pattern, file, line);
}

/* --- calls ----------------------------------------------------------------------------------
 */

static size_t add_words(const char **argv, size_t argc, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (argc == ARGC_MAX)
            abort();
        argv[argc++] = *words;
    }
    return argc;
}

redisReply *run(enum script script, const char *const *keys, const char *const *args)
{
    const struct script_row *row = redis.is_node ? script_row_of_quorum(script)
                                                 : script_row(script);
    const char *argv[ARGC_MAX] = {"EVAL"};
    /* Redis 7 compares the slots only of scripts that begin with this line. */
    argv[1] = text("%s%s", redis.checks_slots ? "#!lua\n" : "", row->text);
    size_t argc = add_words(argv, 3, keys);

    argv[2] = text("%zu", argc - 3);
    argc = add_words(argv, argc, args);
    return keep_reply(redisCommandArgv(redis.db, (int)argc, argv, NULL), redis.db);
}

void run_later(enum script script, const char *const *keys, const char *const *args)
{
    char key_count[8];
    const char *argv[ARGC_MAX] = {"EVALSHA", script_row(script)->sha1, key_count};
    size_t argc = add_words(argv, 3, keys);

    snprintf(key_count, sizeof(key_count), "%zu", argc - 3);
    argc = add_words(argv, argc, args);
    assert_int_equal(redisAppendCommandArgv(redis.db, (int)argc, argv, NULL), REDIS_OK);
}

void read_replies(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *reply = NULL;
        assert_int_equal(redisGetReply(redis.db, &reply), REDIS_OK);
        int type = ((redisReply *)reply)->type;
        freeReplyObject(reply);
        assert_int_not_equal(type, REDIS_REPLY_ERROR);
    }
}

redisReply *command(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *reply = redisvCommand(redis.db, format, args);
    va_end(args);
    return keep_reply(reply, redis.db);
}

int64_t redis_now_ms(void)
{
    redisReply *time = command("TIME");

    return reply_integer(reply_at(time, 0)) * 1000 + reply_integer(reply_at(time, 1)) / 1000;
}

void let_end_now(const char *key)
{
    int64_t left_ms = 1;

    command("PEXPIRE %s 1", key);
    while (left_ms == 1) {
        redisReply *reply = redisCommand(redis.db, "PTTL %s", key);

        assert_non_null(reply);
        left_ms = reply->integer;
        freeReplyObject(reply);
    }
}

void wait_until_gone(const char *key)
{
    for (int waited_ms = 0; waited_ms < 10000; waited_ms += 5, nap()) {
        redisReply *reply = redisCommand(redis.db, "EXISTS %s", key);
        bool is_gone = reply != NULL && reply->integer == 0;

        if (reply != NULL)
            freeReplyObject(reply);
        if (is_gone)
            return;
    }
    fail_msg("%s is still there", key);
}

/* --- what is published ----------------------------------------------------------------------
 */

static void subscribe(redisContext **listener, const char *channel)
{
    if (*listener == NULL)
        *listener = redisConnectUnix(redis.socket);
    if (*listener == NULL || (*listener)->err != 0)
        fail_msg("no further connection to redis-server");
    keep_reply(redisCommand(*listener, "SUBSCRIBE %s", channel), *listener);
}

void listen_to(const char *channel)
{
    subscribe(&redis.listener, channel);
}

void listen_beside(const char *channel)
{
    subscribe(&redis.beside, channel);
}

/* Reads all that has been published until now: a message comes before the answer to PING. */
static void read_messages(void)
{
    void *got = NULL;

    redis.message_count = redis.message_at = 0;
    redisAppendCommand(redis.listener, "PING");
    while (redisGetReply(redis.listener, &got) == REDIS_OK) {
        redisReply *reply = keep_reply(got, redis.listener);
        if (strcmp(reply_text(reply_at(reply, 0)), "pong") == 0)
            return;
        if (redis.message_count == MESSAGES_MAX)
            abort();
        redis.messages[redis.message_count++] = text("%s %s", reply_text(reply_at(reply, 1)),
                                                     reply_text(reply_at(reply, 2)));
    }
    fail_msg("redis-server: %s", redis.listener->errstr);
}

const char *next_message(void)
{
    if (redis.message_at == redis.message_count)
        read_messages();
    return redis.message_at < redis.message_count ? redis.messages[redis.message_at++] : NULL;
}

/* --- the server -----------------------------------------------------------------------------
 */

static void exec_server(void)
{
    char log[96], address[32];
    struct stat namespace = {0};
    unsigned number = (unsigned)getpid();

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive the tests */
    snprintf(log, sizeof(log), "%s/redis.log", redis.dir);
    /* A cluster's server listens on TCP in any case: each one of ours at an address of its own,
     * also beside tests in a chroot with process ids of its own. */
    if (stat("/proc/self/ns/pid", &namespace) == 0)
        number ^= (unsigned)namespace.st_ino << 16;
    snprintf(address, sizeof(address), "127.%u.%u.%u", 128 + (number >> 16 & 0x3f),
             number >> 8 & 0xff, number & 0xff);
    execlp("redis-server", "redis-server", "--port", "0", "--bind", address, "--unixsocket",
           redis.socket, "--dir", redis.dir, "--logfile", log, "--save", "", "--appendonly",
           "no", "--cluster-enabled", redis.is_cluster ? "yes" : "no", (char *)NULL);
    _exit(127);
}

static bool answers(void)
{
    if (redis.db != NULL)
        redisFree(redis.db);
    redis.db = redisConnectUnix(redis.socket);
    if (redis.db == NULL || redis.db->err != 0)
        return false;
    redisReply *reply = redisCommand(redis.db, "PING");
    bool is_up = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    return is_up;
}

static int start(void)
{
    snprintf(redis.dir, sizeof(redis.dir), "/tmp/rlockd-scripts-XXXXXX");
    if (mkdtemp(redis.dir) == NULL)
        return -1;
    snprintf(redis.socket, sizeof(redis.socket), "%s/s", redis.dir);
    redis.pid = fork();
    if (redis.pid == 0)
        exec_server();
    for (int waited_ms = 0; waited_ms < START_MS; waited_ms += 5, nap())
        if (answers())
            return 0;
    print_error("redis-server did not come up\n");
    return -1;
}

static void take_all_slots(void)
{
    enum { AT_ONCE = 1024 };
    static char numbers[AT_ONCE][8];
    const char *argv[AT_ONCE + 2] = {"CLUSTER", "ADDSLOTS"};

    for (int first = 0; first < SLOTS; first += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            snprintf(numbers[i], sizeof(numbers[i]), "%d", (first + i) % SLOTS);
            argv[i + 2] = numbers[i];
        }
        keep_reply(redisCommandArgv(redis.db, AT_ONCE + 2, argv, NULL), redis.db);
    }
}

static bool serves_slots(void)
{
    return strstr(reply_text(command("CLUSTER INFO")), "cluster_state:ok") != NULL;
}

int redis_set_up(void **state)
{
    (void)state;
    redis.is_cluster = redis.checks_slots = redis.is_node = false;
    return start();
}

int redis_set_up_node(void **state)
{
    int failed = redis_set_up(state);

    redis.is_node = true;
    return failed;
}

int redis_set_up_cluster(void **state)
{
    redis.is_cluster = true;
    redis.is_node = false;
    if (start() != 0)
        return -1;
    take_all_slots();
    for (int waited_ms = 0; waited_ms < START_MS && !serves_slots(); waited_ms += 5)
        nap();
    redis.checks_slots = strstr(reply_text(command("INFO server")), "redis_version:6") == NULL;
    return replies_free(state);
}

int redis_tear_down(void **state)
{
    static const char *const files[] = {"s", "redis.log", "nodes.conf"};
    char path[128];

    replies_free(state);
    redisFree(redis.db);
    redis.db = NULL;
    kill(redis.pid, SIGKILL);
    waitpid(redis.pid, NULL, 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", redis.dir, files[i]);
        unlink(path);
    }
    return rmdir(redis.dir);
}

int redis_clear(void **state)
{
    (void)state;
    expect(command("FLUSHALL"), "OK");
    return 0;
}
