/* A bad network: a TCP proxy between rlockd and the private Redis, driven by a thread. With TLS
 * it passes on what it cannot read. */
#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness_world.h"

enum {
    PAIRS_MAX = 64,
    CHUNK_LEN = 16384,
    DELAY_MS = 300,
    TICK_MS = 10,
    QUIET_MS = 100,
    SETTLE_MS = 5000
};

/* An answer of Redis that has not been passed on yet. */
struct chunk {
    struct chunk *next;
    int64_t due_ms;
    size_t len;
    char bytes[];
};

struct pair {
    int client, server;
    bool subscribes; /* the connection that messages come on */
    bool asks;       /* no answer came after its last command */
    bool torn;       /* answers of it are lost: TCP never delivers what comes after a gap */
    bool silent;     /* nothing passes any more, not even an end */
    bool is_parted;  /* comes from PARTED_ADDRESS */
    struct chunk *first, **last;
};

struct proxy {
    struct world *world;
    struct redis *redis;
    pthread_t thread;
    const char *server_address;
    int server_port; /* 0: the socket of the server */
    int listen_fd, port;
    _Atomic int mode;
    _Atomic bool stop, silences, passes_held;
    _Atomic size_t turns; /* that are over */
    _Atomic size_t commands_len, dropped_len;
    _Atomic bool moves; /* an answer is to come, or to be passed on */
    struct pair pairs[PAIRS_MAX];
    size_t pairs_len;
    redisContext *db; /* the thread's own, to ask who subscribes */
};

static void fd_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}

static void drop_answers(struct pair *pair)
{
    while (pair->first != NULL) {
        struct chunk *next = pair->first->next;

        free(pair->first);
        pair->first = next;
    }
    pair->last = &pair->first;
}

static void pair_close(struct proxy *proxy, size_t n, bool reset)
{
    struct pair *pair = &proxy->pairs[n];

    if (reset)
        fd_reset(pair->client);
    else
        close(pair->client);
    close(pair->server);
    drop_answers(pair);
    proxy->pairs_len--;
    if (n == proxy->pairs_len)
        return;
    *pair = proxy->pairs[proxy->pairs_len];
    if (pair->first == NULL)
        pair->last = &pair->first;
}

static int server_by_socket(const struct redis *redis)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof(to.sun_path), "%s", redis->socket);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

static int server_by_port(const struct proxy *proxy)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)proxy->server_port),
                             .sin_addr.s_addr = inet_addr(proxy->server_address)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool is_cut(const struct proxy *proxy, bool is_parted)
{
    return proxy->mode == PROXY_RESET || (proxy->mode == PROXY_PART && is_parted);
}

static void pair_open(struct proxy *proxy)
{
    struct sockaddr_in from = {0};
    socklen_t from_len = sizeof(from);
    int client = accept(proxy->listen_fd, (struct sockaddr *)&from, &from_len);
    bool is_parted = from.sin_addr.s_addr == inet_addr(PARTED_ADDRESS);
    int server;

    if (client < 0)
        return;
    if (is_cut(proxy, is_parted) || proxy->pairs_len == PAIRS_MAX) {
        fd_reset(client);
        return;
    }
    server = proxy->server_port != 0 ? server_by_port(proxy) : server_by_socket(proxy->redis);
    if (server < 0) {
        fd_reset(client);
        return;
    }
    proxy->pairs[proxy->pairs_len] = (struct pair){
        .client = client, .server = server, .is_parted = is_parted};
    proxy->pairs[proxy->pairs_len].last = &proxy->pairs[proxy->pairs_len].first;
    proxy->pairs_len++;
}

static bool pass_command(struct proxy *proxy, struct pair *pair)
{
    char bytes[CHUNK_LEN];
    ssize_t n = recv(pair->client, bytes, sizeof(bytes), 0);

    if (n <= 0)
        return false;
    proxy->commands_len += (size_t)n;
    pair->asks = true;
    if (memmem(bytes, (size_t)n, "SUBSCRIBE", strlen("SUBSCRIBE")) != NULL)
        pair->subscribes = true;
    return send(pair->server, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

/* With TLS only Redis can tell which of its clients subscribe. */
static void learn(struct proxy *proxy, struct pair *pair)
{
    const struct timeval patience = {.tv_sec = 1};
    struct sockaddr_in at = {0};
    socklen_t at_len = sizeof(at);
    char needle[48];

    if (proxy->redis->tls_port == 0 || pair->subscribes ||
        (proxy->mode != PROXY_DEAF && proxy->mode != PROXY_DELAY_COMMANDS &&
         proxy->mode != PROXY_HOLD))
        return;
    if (proxy->db == NULL)
        proxy->db = redisConnectUnixWithTimeout(proxy->redis->socket, patience);
    getsockname(pair->server, (struct sockaddr *)&at, &at_len);
    snprintf(needle, sizeof(needle), "addr=%s:%d ", inet_ntoa(at.sin_addr), ntohs(at.sin_port));
    redisReply *reply = redisCommand(proxy->db, "CLIENT LIST TYPE pubsub");
    pair->subscribes = reply != NULL && reply->str != NULL && strstr(reply->str, needle);
    if (reply != NULL)
        freeReplyObject(reply);
}

static bool is_lost(const struct proxy *proxy, const struct pair *pair)
{
    return proxy->mode == PROXY_DROP_REPLIES || (proxy->mode == PROXY_DEAF && pair->subscribes);
}

/* Redis is asked again, with the text of the script. With TLS nobody but Redis can read that.
 */
static bool is_no_answer(const struct chunk *chunk)
{
    static const char forgotten[] = "-NOSCRIPT";

    return chunk->len >= strlen(forgotten) &&
           memcmp(chunk->bytes, forgotten, strlen(forgotten)) == 0;
}

static bool is_held(const struct proxy *proxy, const struct pair *pair)
{
    return proxy->mode == PROXY_HOLD && !proxy->passes_held && !pair->subscribes &&
           !is_no_answer(pair->first);
}

static bool is_late(const struct proxy *proxy, const struct pair *pair)
{
    return proxy->mode == PROXY_DELAY ||
           (proxy->mode == PROXY_DELAY_COMMANDS && !pair->subscribes);
}

static bool take_answer(struct proxy *proxy, struct pair *pair)
{
    struct chunk *chunk = malloc(sizeof(*chunk) + CHUNK_LEN);
    ssize_t n;

    if (chunk == NULL)
        abort();
    n = recv(pair->server, chunk->bytes, CHUNK_LEN, 0);
    learn(proxy, pair);
    pair->asks = false;
    if (n > 0 && is_lost(proxy, pair))
        pair->torn = true;
    if (!is_lost(proxy, pair) && pair->torn)
        n = 0;
    if (n <= 0 || is_lost(proxy, pair)) {
        free(chunk);
        if (n > 0)
            proxy->dropped_len += (size_t)n;
        return n > 0;
    }
    chunk->next = NULL;
    chunk->len = (size_t)n;
    chunk->due_ms = now_ms() + (is_late(proxy, pair) ? DELAY_MS : 0);
    *pair->last = chunk;
    pair->last = &chunk->next;
    return true;
}

static bool pass_answers(const struct proxy *proxy, struct pair *pair)
{
    if (pair->first != NULL && is_lost(proxy, pair)) {
        pair->torn = true;
        drop_answers(pair); /* those that are late are lost, too */
    }
    while (pair->first != NULL && pair->first->due_ms <= now_ms() && !is_held(proxy, pair)) {
        struct chunk *chunk = pair->first;
        size_t len = proxy->mode == PROXY_CUT ? chunk->len / 2 : chunk->len;
        ssize_t n = send(pair->client, chunk->bytes, len, MSG_NOSIGNAL);
        bool ok = n == (ssize_t)chunk->len;

        pair->first = chunk->next;
        if (pair->first == NULL)
            pair->last = &pair->first;
        free(chunk);
        if (!ok)
            return false;
    }
    return true;
}

static void silence_pairs(struct proxy *proxy)
{
    for (size_t i = 0; i < proxy->pairs_len; i++) {
        proxy->pairs[i].silent = true;
        proxy->pairs[i].asks = false;
        drop_answers(&proxy->pairs[i]);
    }
    proxy->silences = false;
}

static bool any_moves(const struct proxy *proxy)
{
    for (size_t i = 0; i < proxy->pairs_len; i++) {
        if (proxy->pairs[i].asks || proxy->pairs[i].first != NULL)
            return true;
    }
    return false;
}

static void proxy_turn(struct proxy *proxy)
{
    struct pollfd fds[1 + 2 * PAIRS_MAX];
    short want = proxy->mode == PROXY_BLACKHOLE ? 0 : POLLIN;
    size_t len = proxy->pairs_len;

    if (proxy->silences)
        silence_pairs(proxy);
    fds[0] = (struct pollfd){.fd = proxy->listen_fd, .events = POLLIN};
    for (size_t i = 0; i < len; i++) {
        const struct pair *pair = &proxy->pairs[i];

        fds[1 + 2 * i] = (struct pollfd){.fd = pair->silent ? -1 : pair->client, want, 0};
        fds[2 + 2 * i] = (struct pollfd){.fd = pair->silent ? -1 : pair->server, want, 0};
    }
    /* A connection that has broken would end every poll at once. */
    if (want == 0)
        nap_ms(TICK_MS);
    poll(fds, 1 + 2 * len, TICK_MS);
    if (proxy->mode == PROXY_BLACKHOLE && want != 0)
        return;
    for (size_t i = len; i-- > 0;) {
        struct pair *pair = &proxy->pairs[i];
        bool ok = !is_cut(proxy, pair->is_parted);

        if (ok && want != 0 && fds[1 + 2 * i].revents != 0)
            ok = pass_command(proxy, pair);
        if (ok && want != 0 && fds[2 + 2 * i].revents != 0)
            ok = take_answer(proxy, pair);
        if (ok && want != 0)
            ok = pass_answers(proxy, pair);
        if (!ok)
            pair_close(proxy, i, is_cut(proxy, pair->is_parted));
    }
    proxy->passes_held = false;
    proxy->moves = any_moves(proxy);
    if (fds[0].revents != 0)
        pair_open(proxy);
}

static void *proxy_run(void *arg)
{
    struct proxy *proxy = arg;

    while (!proxy->stop) {
        proxy_turn(proxy);
        proxy->turns++;
    }
    while (proxy->pairs_len > 0)
        pair_close(proxy, proxy->pairs_len - 1, false);
    return NULL;
}

static void proxy_undo(void *thing)
{
    struct proxy *proxy = thing;

    proxy->stop = true;
    pthread_join(proxy->thread, NULL);
    close(proxy->listen_fd);
    if (proxy->db != NULL)
        redisFree(proxy->db);
    free(proxy);
}

struct proxy *proxy_start(struct redis *redis)
{
    skip_on_masters(redis->world); /* a node of a cluster says where the others are */
    return proxy_start_at(redis, "127.0.0.1");
}

struct proxy *proxy_start_at(struct redis *redis, const char *address)
{
    return proxy_start_before(redis, address, redis->tls_port);
}

struct proxy *proxy_start_before(struct redis *redis, const char *address, int server_port)
{
    struct proxy *proxy = calloc(1, sizeof(*proxy));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(address)};
    socklen_t at_len = sizeof(at);

    if (proxy == NULL)
        abort();
    proxy->world = redis->world;
    proxy->redis = redis;
    proxy->server_address = redis_address(redis->world);
    proxy->server_port = server_port;
    proxy->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(proxy->listen_fd, (struct sockaddr *)&at, at_len) != 0 ||
        listen(proxy->listen_fd, 64) != 0 ||
        getsockname(proxy->listen_fd, (struct sockaddr *)&at, &at_len) != 0)
        FAIL("cannot start a proxy: %s", strerror(errno));
    proxy->port = ntohs(at.sin_port);
    if (pthread_create(&proxy->thread, NULL, proxy_run, proxy) != 0)
        abort();
    world_defer(redis->world, proxy_undo, proxy);
    return proxy;
}

int proxy_port(const struct proxy *proxy)
{
    return proxy->port;
}

void proxy_set(struct proxy *proxy, enum proxy_mode mode)
{
    proxy->mode = (int)mode;
    /* The turn that polls with the old mode is over. */
    size_t turns = proxy->turns;
    wait_until(proxy->turns - turns >= 2, SETTLE_MS);
}

void proxy_turn_to(struct proxy *proxy, struct redis *redis)
{
    assert_int_equal(proxy->server_port, 0);
    proxy_set(proxy, PROXY_RESET); /* meanwhile the thread asks for no server */
    proxy->redis = redis;
    proxy_set(proxy, PROXY_PASS);
}

void proxy_silence(struct proxy *proxy)
{
    proxy->silences = true;
    wait_until(!proxy->silences, SETTLE_MS);
}

void proxy_pass_held(struct proxy *proxy)
{
    proxy->passes_held = true;
    wait_until(!proxy->passes_held, SETTLE_MS);
}

size_t proxy_commands_len(struct proxy *proxy)
{
    return proxy->commands_len;
}

void proxy_settle(struct proxy *proxy)
{
    for (size_t before = SIZE_MAX; before != proxy->commands_len;) {
        before = proxy->commands_len;
        nap_ms(QUIET_MS);
        wait_until(!proxy->moves, SETTLE_MS);
    }
}

size_t proxy_dropped_len(struct proxy *proxy)
{
    return proxy->dropped_len;
}

const char *proxy_url(struct proxy *proxy, const char *userinfo, const char *path)
{
    return text(proxy->world, "%s://%s127.0.0.1:%d%s",
                proxy->redis->tls_port != 0 ? "rediss" : "redis", userinfo, proxy->port, path);
}
