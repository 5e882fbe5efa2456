/* compare REDIS-SERVER [SEED [COUNT]]: random commands, alone and in scripts, to a real Redis
 * and to the simulated one; their replies must be the same, byte for byte. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/redis.h"

enum { ARGS_MAX = 16, NEAR_MS = 2000 };

struct compare {
    struct redis redis;
    struct redis_counts counts;
    struct redis_client *client;
    struct buffer reply; /* of the real one */
    int fd;
    size_t used;
    struct chance chance;
    struct bytes argv[ARGS_MAX];
    size_t argc;
    int64_t number, differences;
};

static int64_t clock_us(void *arg)
{
    struct timespec now;

    (void)arg;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void ignore_output(void *arg)
{
    (void)arg;
}

/* --- the real one ---------------------------------------------------------------------------
 */

static pid_t start_server(const char *program, const char *path)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp(program, program, "--port", "0", "--unixsocket", path, "--save", "", "--dir", "/tmp",
           "--logfile", "/dev/null", (char *)NULL);
    _exit(127);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    for (int i = 0; i < 500; i++) {
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            return fd;
        usleep(20000);
    }
    return -1;
}

/* Where the reply that begins at `at` ends; NULL: it is not whole. */
static const char *end_of(const char *at, const char *end)
{
    const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

    if (line_end == NULL)
        return NULL;
    long number = strtol(at + 1, NULL, 10);
    const char *next = line_end + 1;
    if (*at == '$' && number >= 0)
        return end - next >= number + 2 ? next + number + 2 : NULL;
    for (long i = 0; *at == '*' && i < number && next != NULL; i++)
        next = end_of(next, end);
    return next;
}

static void ask_server(struct compare *compare)
{
    struct buffer request = {0};
    char chunk[4096];

    buffer_format(&request, "*%zu\r\n", compare->argc);
    for (size_t i = 0; i < compare->argc; i++) {
        buffer_format(&request, "$%zu\r\n", compare->argv[i].len);
        buffer_add(&request, compare->argv[i].text, compare->argv[i].len);
        buffer_add(&request, "\r\n", 2);
    }
    if (write(compare->fd, request.text, request.len) != (ssize_t)request.len)
        exit(2);
    compare->reply.len = 0;
    do {
        ssize_t got = read(compare->fd, chunk, sizeof(chunk));
        if (got <= 0) {
            fprintf(stderr, "compare: Redis went away\n");
            exit(2);
        }
        buffer_add(&compare->reply, chunk, (size_t)got);
    } while (end_of(compare->reply.text, compare->reply.text + compare->reply.len) == NULL);
    compare->client->output.len = 0;
    redis_receive(compare->client, request.text, request.len);
    buffer_release(&request);
}

/* --- the same?
 * -------------------------------------------------------------------------------- */

/* A time that is left may differ by what passed between the two. */
static bool is_near(const char *a, const char *b)
{
    long long left = strtoll(a + 1, NULL, 10), right = strtoll(b + 1, NULL, 10);

    return a[0] == ':' && b[0] == ':' && left > NEAR_MS && llabs(left - right) < NEAR_MS;
}

/* Line by line. */
static bool is_same(const struct compare *compare)
{
    const struct buffer *theirs = &compare->reply, *ours = &compare->client->output;
    size_t i = 0, k = 0;

    while (i < theirs->len && k < ours->len) {
        const char *a = theirs->text + i, *b = ours->text + k;
        const char *a_end = memchr(a, '\n', theirs->len - i);
        const char *b_end = memchr(b, '\n', ours->len - k);
        size_t a_len = a_end ? (size_t)(a_end - a) + 1 : theirs->len - i;
        size_t b_len = b_end ? (size_t)(b_end - b) + 1 : ours->len - k;
        if ((a_len != b_len || memcmp(a, b, a_len) != 0) && !is_near(a, b))
            return false;
        i += a_len;
        k += b_len;
    }
    return i == theirs->len && k == ours->len;
}

static void print(const char *who, const char *text, size_t len)
{
    printf("  %s ", who);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\r' || text[i] == '\n')
            printf("%s", text[i] == '\n' ? "|" : "");
        else
            putchar(text[i]);
    }
    putchar('\n');
}

static void check(struct compare *compare)
{
    ask_server(compare);
    compare->number++;
    if (is_same(compare))
        return;
    printf("command %lld:", (long long)compare->number);
    for (size_t i = 0; i < compare->argc; i++)
        printf(" '%s'", compare->argv[i].text);
    putchar('\n');
    print("real     ", compare->reply.text, compare->reply.len);
    print("simulated", compare->client->output.text, compare->client->output.len);
    compare->differences++;
}

/* --- random commands
 * -------------------------------------------------------------------------- */

static void add(struct compare *compare, const char *text)
{
    compare->argv[compare->argc++] = bytes_copy(bytes_of(text));
}

static void clear(struct compare *compare)
{
    while (compare->argc > 0)
        free(compare->argv[--compare->argc].text);
}

static const char *one_of(struct compare *compare, const char *const *texts, size_t count)
{
    return texts[chance_below(&compare->chance, count)];
}

#define ONE_OF(compare, ...)                                                                   \
    one_of(compare, (const char *const[]){__VA_ARGS__},                                        \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* What a pattern of arguments stands for; a letter behind a question mark may be left out. */
static void add_for(struct compare *compare, char letter)
{
    switch (letter) {
    case 'k':
        add(compare, ONE_OF(compare, "a", "b", "c", "d", "{e}:f", "g"));
        break;
    case 'f':
        add(compare, ONE_OF(compare, "x", "y", "z", "", "mode", "w w", "5"));
        break;
    case 'v':
        add(compare, ONE_OF(compare, "1", "-7", "text", "", "two\nlines", "9007199254740993",
                            "9223372036854775807", "007", "3.5"));
        break;
    case 'n':
        add(compare, ONE_OF(compare, "0", "1", "2", "3", "-1", "-2", "100", "x", "1.5"));
        break;
    case 'c': /* a count */
        add(compare, ONE_OF(compare, "10", "100"));
        break;
    case 'p': /* no negative one */
        add(compare, ONE_OF(compare, "0", "1", "2", "9"));
        break;
    case 's':
        add(compare, ONE_OF(compare, "0", "1", "2.5", "-3", "1700000000000", "1e3", "inf",
                            "-inf", "0.1", "1763800000123456", "no"));
        break;
    case 'b':
        add(compare, ONE_OF(compare, "-inf", "+inf", "0", "(1", "1", "2.5", "(2.5", "no",
                            "1700000000000"));
        break;
    case 't':
        add(compare, ONE_OF(compare, "100000", "5000000", "1000000", "0", "-5", "x"));
        break;
    default:
        abort();
    }
}

static const char *const shapes[] = {"get k",
                                     "mget k k k",
                                     "set k v",
                                     "set k v nx",
                                     "set k v xx",
                                     "set k v get",
                                     "set k v px t",
                                     "set k v px t get",
                                     "set k v nx px t",
                                     "set k v keepttl",
                                     "set k v xx keepttl",
                                     "set k v nx get",
                                     "set k v px",
                                     "incr k",
                                     "incrby k n",
                                     "decrby k n",
                                     "hset k f v",
                                     "hset k f v f v",
                                     "hset k f",
                                     "hget k f",
                                     "hmget k f f f",
                                     "hdel k f",
                                     "hdel k f f",
                                     "hexists k f",
                                     "hlen k",
                                     "hgetall k",
                                     "hincrby k f n",
                                     "hrandfield k c",
                                     "hrandfield k c withvalues",
                                     "hrandfield k n withscores",
                                     "rpush k f",
                                     "rpush k f f v",
                                     "llen k",
                                     "lindex k n",
                                     "lrange k n n",
                                     "lpop k",
                                     "lpos k f",
                                     "lrem k p f",
                                     "zadd k s f",
                                     "zadd k s f s f",
                                     "zadd k nx s f",
                                     "zadd k xx s f",
                                     "zadd k gt s f",
                                     "zadd k lt s f",
                                     "zadd k ch s f s f",
                                     "zadd k lt ch s f",
                                     "zadd k gt ch s f",
                                     "zadd k xx incr s f",
                                     "zadd k incr s f",
                                     "zadd k s",
                                     "zincrby k s f",
                                     "zcard k",
                                     "zscore k f",
                                     "zrem k f",
                                     "zrem k f f",
                                     "zcount k b b",
                                     "zremrangebyscore k b b",
                                     "zrangebyscore k b b",
                                     "zrangebyscore k b b withscores",
                                     "zrangebyscore k b b limit p p",
                                     "zrangebyscore k b b withscores limit p p",
                                     "zrange k n n",
                                     "zrange k n n withscores",
                                     "zscan k 0",
                                     "hscan k 0",
                                     "hscan k 0 count 100",
                                     "del k",
                                     "del k k",
                                     "exists k",
                                     "exists k k k",
                                     "pexpire k t",
                                     "pttl k",
                                     "persist k",
                                     "rename k k",
                                     "type k",
                                     "get",
                                     "get k k",
                                     "nonsense k",
                                     "publish k v",
                                     "pubsub numsub k",
                                     "pubsub numsub k k"};

static void make_command(struct compare *compare)
{
    char shape[80];
    char *rest = shape, *word;

    snprintf(shape, sizeof(shape), "%s",
             one_of(compare, shapes, sizeof(shapes) / sizeof(shapes[0])));
    while ((word = strsep(&rest, " ")) != NULL) {
        if (strlen(word) == 1 && strchr("kfvncpsbt", word[0]) != NULL)
            add_for(compare, word[0]);
        else
            add(compare, word);
    }
}

static const char *const scripts[] = {
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "return {redis.call(unpack(ARGV))}",
    "local reply = redis.pcall(unpack(ARGV)) return {type(reply), reply}",
    "local reply = redis.pcall(unpack(ARGV)) return type(reply) == 'table' and reply.err or 0",
    "local ok, reply = pcall(redis.call, unpack(ARGV)) return {ok and 1 or 0, 'caught'}",
    "redis.call('hdel', 'none', '') return redis.call(unpack(ARGV))",
    "redis.pcall('get', 'a') return redis.pcall(unpack(ARGV))",
    "redis.call('pexpire', 'none', 1) return redis.pcall(unpack(ARGV))",
    "return {1, 2.9, -2.9, 'text', true, 3, false, 4, nil, 5}",
    "return redis.call('set', 'n', 2^53) and redis.call('get', 'n')",
    "redis.call('set', 'n', 1e15 + 0.5) return redis.call('get', 'n')",
    "redis.call('set', 'n', 17 / 4) return {redis.call('get', 'n'), 10 / 4}",
    "redis.call('zadd', 'zz', 1700000000123456, 'm') return redis.call('zscore', 'zz', 'm')",
    "return {err = 'OWN words'}",
    "return {ok = 'FINE'}",
    "return {{1, {2, 'three'}}, redis.call('exists', 'a', 'b')}",
    "local time = redis.call('time') return {#time, type(time[1]), type(time[2])}",
    "return tonumber(redis.call('pttl', 'none'))",
    "error('words')",
    "return nil + 1",
    "return redis.call()",
    "return undefined_name",
};

static void wrap_in_script(struct compare *compare)
{
    struct bytes argv[ARGS_MAX];
    size_t argc = compare->argc;

    memcpy(argv, compare->argv, sizeof(argv));
    compare->argc = 0;
    add(compare, "eval");
    add(compare, one_of(compare, scripts, sizeof(scripts) / sizeof(scripts[0])));
    add(compare, "0");
    for (size_t i = 0; i < argc; i++)
        compare->argv[compare->argc++] = argv[i];
}

/* Both have enough memory, or both do not. */
static void set_memory(struct compare *compare, bool is_short)
{
    add(compare, "config");
    add(compare, "set");
    add(compare, "maxmemory");
    add(compare, is_short ? "1" : "0");
    ask_server(compare);
    clear(compare);
    compare->redis.is_out_of_memory = is_short;
}

/* A key whose time is over. */
static void let_expire(struct compare *compare)
{
    add(compare, "pexpire");
    add_for(compare, 'k');
    add(compare, "1");
    check(compare);
    clear(compare);
    usleep(4000);
}

static void run(struct compare *compare, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (i % 1000 == 0)
            set_memory(compare, i % 4000 == 3000);
        if (chance_below(&compare->chance, 400) == 0)
            let_expire(compare);
        make_command(compare);
        bool in_script = chance_percent(&compare->chance, 40);
        if (in_script)
            wrap_in_script(compare);
        check(compare);
        clear(compare);
        if (compare->differences >= 20)
            return;
    }
}

int main(int argc, char **argv)
{
    static struct compare compare;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int64_t count = argc > 3 ? strtoll(argv[3], NULL, 10) : 100000;
    char path[64];

    if (argc < 2) {
        fprintf(stderr, "usage: compare REDIS-SERVER [SEED [COUNT]]\n");
        return 2;
    }
    snprintf(path, sizeof(path), "/tmp/rlockd-compare-%d.sock", (int)getpid());
    pid_t server = start_server(argv[1], path);
    compare.fd = connect_to(path);
    compare.chance = chance_make(seed, "commands");
    redis_init(&compare.redis, &compare.counts, chance_make(seed, "redis"), clock_us, NULL);
    compare.client = redis_connect(&compare.redis, ignore_output, NULL);
    if (compare.fd >= 0)
        run(&compare, count);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    unlink(path);
    printf("compare: seed %llu: %lld commands, %lld replies differ\n", (unsigned long long)seed,
           (long long)compare.number, (long long)compare.differences);
    redis_release(&compare.redis);
    return compare.differences != 0 || compare.number < count;
}
