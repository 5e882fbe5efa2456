/* A private redis-server, and what a Java client does to it. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster.h"
#include "harness_world.h"
#include "sentinel.h"

enum {
    REDIS_FLAGS_MAX = 64,
    REDIS_START_MS = 10000,
    SENTINEL_CALM_MS = 600000,
    CLUSTER_BATCH = 1024
};

struct listener {
    struct world *world;
    redisContext *db;
};

/* Effects of Redisson's scripts, in words of our own. */
static const char *const ACQUIRE =
    "if redis.call('hlen', KEYS[1]) > 0 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then "
    "  return redis.call('pttl', KEYS[1]) end "
    "if ARGV[3] == 'fenced' then redis.call('incr', KEYS[2]) end "
    "redis.call('hincrby', KEYS[1], ARGV[2], 1) "
    "redis.call('pexpire', KEYS[1], ARGV[1]) "
    "return false";

static const char *const UNLOCK =
    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return false end "
    "redis.call('del', KEYS[1]) "
    "redis.call('publish', KEYS[2], '0') "
    "redis.call('set', KEYS[3], '1', 'px', 13500) "
    "return 1";

static void reply_undo(void *thing)
{
    freeReplyObject(thing);
}

/* Of the build that this program is of. */
static const char *skew_library(struct world *w)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (len < 0)
        FAIL("/proc/self/exe: %s", strerror(errno));
    path[len] = '\0';
    return text(w, "%s/../lib/skew.so", dirname(path));
}

void redis_relaunch(struct redis *redis, const char *const *flags)
{
    struct world *w = redis->world;

    if (redis->cluster != NULL)
        skip_on_masters(w);
    const char *argv[REDIS_FLAGS_MAX] = {"redis-server"};
    size_t len = redis_data_flags(redis, argv, 1);

    len = redis->on_tcp ? redis_tcp_flags(redis, argv, len)
                        : redis_socket_flags(redis, argv, len);
    if (redis_is_cluster())
        len = redis_cluster_flags(argv, len);
    while (flags != NULL && *flags != NULL && len + 1 < REDIS_FLAGS_MAX)
        argv[len++] = *flags++;
    const char *env[] = {text(w, "LD_PRELOAD=%s", skew_library(w)),
                         text(w, "TEST_CLOCK_AHEAD_S=%d", redis->ahead_s), NULL};
    redis->child = child_start(w, "redis", argv, redis->ahead_s != 0 ? env : NULL);
}

static void redis_undo(void *thing)
{
    struct redis *redis = thing;

    if (redis->db != NULL)
        redisFree(redis->db);
    free(redis);
}

static bool redis_try(struct redis *redis)
{
    redisReply *reply;
    bool ok;

    if (redis->db != NULL)
        redisFree(redis->db);
    redis->db = redisConnectUnix(redis->socket);
    if (redis->db == NULL || redis->db->err != 0)
        return false;
    reply = redisCommand(redis->db, "PING");
    ok = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    return ok;
}

static const char *cluster_info(struct redis *redis)
{
    return redis_str(redis, "CLUSTER INFO");
}

void redis_take_slots(struct redis *redis, int first, int end)
{
    while (first < end) {
        const char *argv[2 + CLUSTER_BATCH] = {"CLUSTER", "ADDSLOTS"};
        int len = 2;
        redisReply *reply;

        while (len < 2 + CLUSTER_BATCH && first < end)
            argv[len++] = text(redis->world, "%d", first++);
        reply = redisCommandArgv(redis->db, len, argv, NULL);
        if (reply == NULL || reply->type != REDIS_REPLY_STATUS)
            FAIL("CLUSTER ADDSLOTS: %s", reply != NULL ? reply->str : redis->db->errstr);
        freeReplyObject(reply);
    }
}

static void become_cluster(struct redis *redis)
{
    /* A server that came back owns its slots still. */
    if (strstr(cluster_info(redis), "cluster_slots_assigned:16384") == NULL)
        redis_take_slots(redis, 0, CLUSTER_SLOTS);
    /* Redis waits 2 s before a server of a cluster takes writes. */
    wait_until(strstr(cluster_info(redis), "cluster_state:ok") != NULL, REDIS_START_MS);
}

/* Of a cluster of several: each of its nodes. */
static bool at_each_node(const struct redis *redis, void (*act)(struct redis *node))
{
    for (int i = 0; redis->cluster != NULL && i < redis->cluster->len; i++)
        act(redis->cluster->nodes[i]);
    return redis->cluster != NULL;
}

void redis_connect(struct redis *redis)
{
    if (at_each_node(redis, redis_connect))
        return;
    wait_until(redis_try(redis), REDIS_START_MS);
    if (redis_is_cluster() && !redis_has_masters())
        become_cluster(redis);
}

static struct redis *redis_new(struct world *w, bool on_tcp, int ahead_s,
                               const char *const *flags)
{
    struct redis *redis = calloc(1, sizeof(*redis));
    int n = w->inside->children_len;

    if (redis == NULL)
        abort();
    redis->world = w;
    redis->number = n;
    snprintf(redis->dir, sizeof(redis->dir), "%s/r%d", w->dir, n);
    snprintf(redis->socket, sizeof(redis->socket), "%s/s", redis->dir);
    snprintf(redis->url, sizeof(redis->url), "unix://%s", redis->socket);
    redis->on_tcp = on_tcp;
    redis->ahead_s = ahead_s;
    if (mkdir(redis->dir, 0700) != 0)
        FAIL("cannot make %s", redis->dir);
    redis_relaunch(redis, flags);
    if (redis->tls_port != 0)
        snprintf(redis->url, sizeof(redis->url), "rediss://%s:%d", redis_address(w),
                 redis->tls_port);
    world_defer(w, redis_undo, redis);
    redis_connect(redis);
    return redis;
}

struct redis *redis_start_tcp(struct world *w, const char *const *flags)
{
    return redis_new(w, true, 0, flags);
}

struct redis *redis_start_skewed(struct world *w, int ahead_s)
{
    return redis_new(w, true, ahead_s, NULL);
}

/* One server; with E2E_REDIS=sentinel a Sentinel watches over it. */
static struct redis *start_alone(struct world *w)
{
    struct redis *redis = redis_new(w, redis_is_cluster() || redis_is_sentinel(), 0, NULL);

    if (redis_is_sentinel()) {
        struct sentinel *sentinel = sentinel_start(redis, 1, SENTINEL_CALM_MS);
        snprintf(redis->url, sizeof(redis->url), "%s", sentinel_url(&sentinel, 1));
    }
    return redis;
}

struct redis *redis_start(struct world *w, ...)
{
    struct redis *redis = redis_has_masters() ? cluster_as_redis(w, false) : start_alone(w);
    const char *flag, *value;
    va_list args;

    va_start(args, w);
    while ((flag = va_arg(args, const char *)) != NULL) {
        value = va_arg(args, const char *);
        redis_ok(redis, "CONFIG SET %s %s", flag, value);
    }
    va_end(args);
    return redis;
}

void redis_kill(struct redis *redis)
{
    /* The one that comes back ends with the test; the plan's has to last. */
    if (redis == redis->world->redis)
        FAIL("the Redis of the plan is not for killing");
    if (at_each_node(redis, cluster_kill))
        return;
    child_signal(redis->child, SIGKILL);
    if (child_wait(redis->child, REDIS_START_MS) < 0)
        FAIL("redis-server survives SIGKILL");
}

void redis_return(struct redis *redis)
{
    if (at_each_node(redis, cluster_return)) {
        cluster_await(redis->cluster);
        return;
    }
    redis_relaunch(redis, NULL);
    redis_connect(redis);
}

void redis_lose_data(struct redis *redis)
{
    if (at_each_node(redis, redis_lose_data))
        return;
    dir_remove(text(redis->world, "%s/appendonlydir", redis->dir));
    unlink(text(redis->world, "%s/appendonly.aof", redis->dir));
    unlink(text(redis->world, "%s/dump.rdb", redis->dir));
}

void redis_freeze(struct redis *redis)
{
    if (at_each_node(redis, redis_freeze))
        return;
    child_signal(redis->child, SIGSTOP);
}

void redis_thaw(struct redis *redis)
{
    if (at_each_node(redis, redis_thaw))
        return;
    child_signal(redis->child, SIGCONT);
}

static redisReply *redis_ask(struct redis *redis, const char *format, va_list args)
{
    redisReply *reply = redis->cluster != NULL ? cluster_ask(redis->cluster, format, args)
                                               : redisvCommand(redis->db, format, args);

    if (reply == NULL)
        FAIL("lost the private Redis: %s (%s)", redis->db->errstr, format);
    world_defer(redis->world, reply_undo, reply);
    return reply;
}

redisReply *redis_do(struct redis *redis, const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redis_ask(redis, format, args);
    va_end(args);
    return reply;
}

long long redis_int(struct redis *redis, const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redis_ask(redis, format, args);
    va_end(args);
    if (reply->type != REDIS_REPLY_INTEGER)
        FAIL("%s: no integer but %s", format, reply->str != NULL ? reply->str : "another type");
    return reply->integer;
}

const char *redis_str(struct redis *redis, const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redis_ask(redis, format, args);
    va_end(args);
    if (reply->type == REDIS_REPLY_NIL)
        return NULL;
    if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS)
        FAIL("%s: no string but %s", format, reply->str != NULL ? reply->str : "another type");
    return reply->str;
}

long long redis_calls(struct redis *redis, const char *command)
{
    char field[64];

    snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
    const char *at = strstr(redis_str(redis, "INFO commandstats"), field);
    return at != NULL ? atoll(at + strlen(field)) : 0;
}

void redis_ok(struct redis *redis, const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redis_ask(redis, format, args);
    va_end(args);
    if (reply->type == REDIS_REPLY_ERROR)
        FAIL("%s: %s", format, reply->str);
}

bool redis_has(struct redis *redis, const char *key)
{
    return redis_int(redis, "EXISTS %s", key) == 1;
}

static void undo_json(void *thing)
{
    json_decref(thing);
}

static void add_keys(json_t *keys, struct redis *redis, const char *prefix)
{
    redisReply *all = redis_do(redis, "KEYS *");

    for (size_t i = 0; i < all->elements; i++) {
        const char *key = all->element[i]->str;

        if (strncmp(key, prefix, strlen(prefix)) == 0 &&
            strncmp(key, "rlockd:marker", strlen("rlockd:marker")) != 0 &&
            strncmp(key, "rlockd:census", strlen("rlockd:census")) != 0)
            json_array_append_new(keys, json_string(all->element[i]->str));
    }
}

json_t *redis_keys(struct redis *redis, const char *prefix)
{
    json_t *keys = json_array();

    world_defer(redis->world, undo_json, keys);
    if (redis->cluster == NULL)
        add_keys(keys, redis, prefix);
    for (int i = 0; redis->cluster != NULL && i < redis->cluster->len; i++)
        add_keys(keys, redis->cluster->nodes[i], prefix);
    return keys;
}

/* `prefix:{key}`, or without further braces where the key has one. */
static const char *prefixed(struct redis *redis, const char *prefix, const char *key)
{
    return text(redis->world, strchr(key, '{') != NULL ? "%s:%s" : "%s:{%s}", prefix, key);
}

static bool acquire(struct redis *redis, const char *key, const char *holder, int lease_ms,
                    const char *kind)
{
    redisReply *reply = redis_do(redis, "EVAL %s 2 %s %s %d %s %s", ACQUIRE, key,
                                 prefixed(redis, "redisson_lock_token", key), lease_ms, holder,
                                 kind);

    if (reply->type == REDIS_REPLY_ERROR)
        FAIL("acquire as Redisson: %s", reply->str);
    return reply->type == REDIS_REPLY_NIL;
}

bool redisson_lock(struct redis *redis, const char *key, const char *holder, int lease_ms)
{
    return acquire(redis, key, holder, lease_ms, "plain");
}

bool redisson_fenced_lock(struct redis *redis, const char *key, const char *holder,
                          int lease_ms)
{
    return acquire(redis, key, holder, lease_ms, "fenced");
}

bool redisson_unlock(struct redis *redis, const char *key, const char *holder)
{
    const char *latch = text(redis->world, "%s:0123456789abcdef0123456789abcdef",
                             prefixed(redis, "redisson_unlock_latch", key));
    redisReply *reply = redis_do(redis, "EVAL %s 3 %s %s %s %s", UNLOCK, key,
                                 prefixed(redis, "redisson_lock__channel", key), latch, holder);

    if (reply->type == REDIS_REPLY_ERROR)
        FAIL("unlock as Redisson: %s", reply->str);
    return reply->type == REDIS_REPLY_INTEGER;
}

static void listener_undo(void *thing)
{
    struct listener *listener = thing;

    redisFree(listener->db);
    free(listener);
}

struct listener *listener_start(struct redis *redis, const char *channel)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    redisReply *reply;

    if (listener == NULL)
        abort();
    listener->world = redis->world;
    listener->db = redisConnectUnix(redis->socket);
    world_defer(redis->world, listener_undo, listener);
    reply = redisCommand(listener->db, "SUBSCRIBE %s", channel);
    if (reply == NULL)
        FAIL("cannot subscribe");
    freeReplyObject(reply);
    return listener;
}

const char *listener_next(struct listener *listener, int64_t ms)
{
    int64_t wait_ms = patience_ms(ms);
    struct timeval limit = {.tv_sec = wait_ms / 1000, .tv_usec = (wait_ms % 1000) * 1000};
    redisReply *reply = NULL;

    redisSetTimeout(listener->db, limit);
    if (redisGetReply(listener->db, (void **)&reply) != REDIS_OK) {
        /* A time-out sets the error for good; clear it, the connection is fine. */
        listener->db->err = 0;
        return NULL;
    }
    world_defer(listener->world, reply_undo, reply);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3)
        FAIL("not a message");
    return reply->element[2]->str;
}
