/* Sentinels, each with a configuration file that it writes to. */
#include <signal.h>
#include <unistd.h>

#include "harness_world.h"
#include "sentinel.h"

enum { SENTINEL_START_MS = 10000, SENTINELS_MEET_MS = 30000, FIRST_SENTINEL_PORT = 17000 };

static void sentinel_undo(void *thing)
{
    struct sentinel *sentinel = thing;

    if (sentinel->db != NULL)
        redisFree(sentinel->db);
    free(sentinel);
}

static bool sentinel_try(struct sentinel *sentinel)
{
    if (sentinel->db != NULL)
        redisFree(sentinel->db);
    sentinel->db = redisConnectUnix(sentinel->socket);
    return sentinel->db != NULL && sentinel->db->err == 0;
}

static void undo_reply(void *thing)
{
    freeReplyObject(thing);
}

/* NULL: it has died. */
static redisReply *sentinel_ask(struct sentinel *sentinel, const char *format, va_list args)
{
    redisReply *reply = redisvCommand(sentinel->db, format, args);

    if (reply != NULL)
        world_defer(sentinel->world, undo_reply, reply);
    return reply;
}

static redisReply *sentinel_do(struct sentinel *sentinel, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *reply = sentinel_ask(sentinel, format, args);
    va_end(args);
    return reply;
}

void sentinel_ok(struct sentinel *sentinel, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *reply = sentinel_ask(sentinel, format, args);
    va_end(args);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        FAIL("%s: %s", format, reply != NULL ? reply->str : "no answer");
}

bool sentinel_names(struct sentinel *sentinel, const struct redis *redis)
{
    redisReply *reply = sentinel_do(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster");

    return reply != NULL && reply->type == REDIS_REPLY_ARRAY &&
           atoi(reply->element[1]->str) == redis->port;
}

int sentinel_accepted(struct sentinel *sentinel)
{
    static const char name[] = "total_connections_received:";
    redisReply *reply = sentinel_do(sentinel, "INFO stats");
    const char *found = reply != NULL && reply->type == REDIS_REPLY_STRING
                            ? strstr(reply->str, name)
                            : NULL;

    if (found == NULL)
        FAIL("INFO has no %s", name);
    return atoi(found + strlen(name));
}

/* Where it listens. */
static void write_configuration(struct sentinel *sentinel, int number, FILE *file)
{
    struct world *w = sentinel->world;

    fprintf(file, "bind %s\nunixsocket %s\ndir %s\nsentinel announce-ip %s\n", sentinel->host,
            sentinel->socket, w->dir, sentinel->host);
    if (!redis_is_tls()) {
        fprintf(file, "port %d\n", sentinel->port);
        return;
    }
    const char *certificate = redis_certificate(w, number);
    fprintf(file,
            "port 0\ntls-port %d\ntls-replication yes\ntls-auth-clients no\n"
            "tls-cert-file %s.pem\ntls-key-file %s.key\ntls-ca-cert-file %s/redis-ca.pem\n",
            sentinel->port, certificate, certificate, w->dir);
}

static void sentinel_launch(struct sentinel *sentinel)
{
    const char *const argv[] = {"redis-server", sentinel->path, "--sentinel", NULL};

    sentinel->child = child_start(sentinel->world, "sentinel", argv, NULL);
    wait_until(sentinel_try(sentinel), SENTINEL_START_MS);
}

struct sentinel *sentinel_start(struct redis *master, int quorum, int down_ms)
{
    struct world *w = master->world;
    struct sentinel *sentinel = calloc(1, sizeof(*sentinel));
    int n = w->inside->children_len;

    if (sentinel == NULL)
        abort();
    sentinel->world = w;
    snprintf(sentinel->host, sizeof(sentinel->host), "%s", master->host);
    snprintf(sentinel->socket, sizeof(sentinel->socket), "%s/sentinel%d", w->dir, n);
    sentinel->port = FIRST_SENTINEL_PORT + n;
    sentinel->path = text(w, "%s/sentinel%d.conf", w->dir, n);
    FILE *file = fopen(sentinel->path, "w");
    if (file == NULL)
        FAIL("cannot write %s", sentinel->path);
    write_configuration(sentinel, n, file);
    fprintf(file,
            "sentinel monitor mymaster %s %d %d\n"
            "sentinel down-after-milliseconds mymaster %d\n"
            "sentinel failover-timeout mymaster 4000\n",
            master->host, master->port, quorum, down_ms);
    fclose(file);
    world_defer(w, sentinel_undo, sentinel);
    sentinel_launch(sentinel);
    return sentinel;
}

void sentinel_kill(struct sentinel *sentinel)
{
    child_signal(sentinel->child, SIGKILL);
    child_wait(sentinel->child, SENTINEL_START_MS);
    redisFree(sentinel->db);
    sentinel->db = NULL;
}

void sentinel_return(struct sentinel *sentinel)
{
    sentinel_launch(sentinel);
}

const char *sentinel_url(struct sentinel *const *sentinels, int count)
{
    const char *url = redis_is_tls() ? "rediss-sentinel://" : "redis-sentinel://";

    for (int i = 0; i < count; i++)
        url = text(sentinels[i]->world, "%s%s%s:%d", url, i > 0 ? "," : "", sentinels[i]->host,
                   sentinels[i]->port);
    return text(sentinels[0]->world, "%s/mymaster", url);
}

/* ---- three of each ---- */

/* A number of what SENTINEL MASTER tells. */
static int told(struct sentinel *sentinel, const char *field)
{
    redisReply *reply = sentinel_do(sentinel, "SENTINEL MASTER mymaster");

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY)
        return -1;
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (strcmp(reply->element[i]->str, field) == 0)
            return atoi(reply->element[i + 1]->str);
    return -1;
}

static bool has_met(const struct trio *trio)
{
    for (int i = 0; i < TRIO; i++)
        if (told(trio->sentinel[i], "num-slaves") != TRIO - 1 ||
            told(trio->sentinel[i], "num-other-sentinels") != TRIO - 1)
            return false;
    return true;
}

static bool follows(struct redis *replica)
{
    return strstr(redis_str(replica, "INFO replication"), "master_link_status:up") != NULL;
}

struct trio trio_start(struct world *w)
{
    struct trio trio = {.server[0] = redis_start_tcp(w, NULL)};
    const struct redis *master = trio.server[0];
    const char *const flags[] = {
        "--replicaof", master->host, text(w, "%d", master->port), "--repl-diskless-sync-delay",
        "0",           NULL};

    redis_ok(trio.server[0], "CONFIG SET repl-diskless-sync-delay 0");
    for (int i = 1; i < TRIO; i++) {
        trio.server[i] = redis_start_tcp(w, flags);
        wait_until(follows(trio.server[i]), SENTINEL_START_MS);
    }
    for (int i = 0; i < TRIO; i++)
        trio.sentinel[i] = sentinel_start(trio.server[0], 2, 1000);
    trio.url = sentinel_url(trio.sentinel, TRIO);
    wait_until(has_met(&trio), SENTINELS_MEET_MS);
    return trio;
}

struct redis *trio_master(const struct trio *trio)
{
    for (int i = 0; i < TRIO; i++)
        for (int n = 0; n < TRIO; n++)
            if (trio->sentinel[i]->db != NULL &&
                sentinel_names(trio->sentinel[i], trio->server[n])) {
                /* Sentinels cut off every client of a server that changes its role. */
                redis_connect(trio->server[n]);
                return trio->server[n];
            }
    FAIL("no Sentinel names the master");
}

int trio_failovers(const struct trio *trio)
{
    int last = 0;

    for (int i = 0; i < TRIO; i++) {
        int made = trio->sentinel[i]->db != NULL ? told(trio->sentinel[i], "config-epoch") : 0;
        last = made > last ? made : last;
    }
    return last;
}

bool trio_fail_over(const struct trio *trio)
{
    const redisReply *reply = sentinel_do(trio->sentinel[0], "SENTINEL FAILOVER mymaster");

    return reply != NULL && reply->type == REDIS_REPLY_STATUS;
}

void trio_return(const struct trio *trio, int server)
{
    const struct redis *master = trio_master(trio);
    struct redis *replica = trio->server[server];

    redis_return(replica);
    redis_ok(replica, "REPLICAOF %s %d", master->host, master->port);
    wait_until(follows(replica), SENTINEL_START_MS);
}

void trio_sync(const struct trio *trio)
{
    struct redis *master = trio_master(trio);

    redis_ok(master, "SET trio:sync 1 PX 60000");
    wait_until(redis_int(master, "WAIT 2 100") == 2, SENTINEL_START_MS);
}
