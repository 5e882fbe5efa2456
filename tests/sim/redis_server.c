/* The connections of the simulated Redis: requests in RESP, pub/sub, and what rlockd asks about
 * the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "tests/sim/redis.h"

enum { ARGS_MAX = 2048 };

/* --- pub/sub -------------------------------------------------------------------------------
 */

static long find_channel(const struct redis_client *client, struct bytes name, bool is_shard)
{
    for (size_t i = 0; i < client->channel_count; i++)
        if (client->channels[i].is_shard == is_shard &&
            bytes_equal(client->channels[i].name, name))
            return (long)i;
    return -1;
}

static int64_t count_channels(const struct redis_client *client, bool is_shard)
{
    int64_t count = 0;

    for (size_t i = 0; i < client->channel_count; i++)
        count += client->channels[i].is_shard == is_shard;
    return count;
}

static void push(struct call *call, const char *kind, struct bytes channel)
{
    reply_count(call, 3);
    reply_bytes(call, bytes_of(kind));
    reply_bytes(call, channel);
}

static void tell_output(struct redis_client *client)
{
    if (client->output.len > 0)
        client->has_output(client->arg);
}

static int64_t publish(struct redis *redis, struct bytes channel, struct bytes text,
                       bool is_shard)
{
    struct redis_client *client;
    int64_t count = 0;

    DL_FOREACH(redis->clients, client) {
        if (client->is_killed || find_channel(client, channel, is_shard) < 0)
            continue;
        struct call message = {.redis = redis, .reply = &client->output};
        push(&message, is_shard ? "smessage" : "message", channel);
        reply_bytes(&message, text);
        tell_output(client);
        count++;
    }
    return count;
}

void redis_publish(struct redis *redis, struct bytes channel, struct bytes text)
{
    publish(redis, channel, text, false);
}

static void run_publish(struct call *call)
{
    reply_integer(call, publish(call->redis, call->argv[1], call->argv[2], false));
    if (call->redis->peers.published != NULL)
        call->redis->peers.published(call->redis, call->argv[1], call->argv[2]);
}

static void run_spublish(struct call *call)
{
    reply_integer(call, publish(call->redis, call->argv[1], call->argv[2], true));
}

static void subscribe(struct call *call, const char *kind, bool is_shard)
{
    struct redis_client *client = call->client;

    for (size_t i = 1; i < call->argc; i++) {
        if (find_channel(client, call->argv[i], is_shard) < 0) {
            client->channels = reallocarray(client->channels, client->channel_count + 1,
                                            sizeof(*client->channels));
            if (client->channels == NULL)
                abort();
            client->channels[client->channel_count++] = (struct channel){
                bytes_copy(call->argv[i]), is_shard};
        }
        push(call, kind, call->argv[i]);
        reply_integer(call, count_channels(client, is_shard));
    }
}

static void run_subscribe(struct call *call)
{
    subscribe(call, "subscribe", false);
}

static void run_ssubscribe(struct call *call)
{
    subscribe(call, "ssubscribe", true);
}

static void forget_channel(struct redis_client *client, size_t at)
{
    free(client->channels[at].name.text);
    client->channel_count--;
    memmove(client->channels + at, client->channels + at + 1,
            (client->channel_count - at) * sizeof(*client->channels));
}

static void unsubscribe(struct call *call, const char *kind, bool is_shard)
{
    struct redis_client *client = call->client;

    for (size_t i = 1; i < call->argc; i++) {
        long at = find_channel(client, call->argv[i], is_shard);
        if (at >= 0)
            forget_channel(client, (size_t)at);
        push(call, kind, call->argv[i]);
        reply_integer(call, count_channels(client, is_shard));
    }
}

static void run_unsubscribe(struct call *call)
{
    unsubscribe(call, "unsubscribe", false);
}

static void run_sunsubscribe(struct call *call)
{
    unsubscribe(call, "sunsubscribe", true);
}

static void leave_channel(struct redis_client *client, size_t at)
{
    struct call call = {.redis = client->redis, .reply = &client->output};
    struct bytes name = bytes_copy(client->channels[at].name);

    forget_channel(client, at);
    push(&call, "sunsubscribe", name);
    reply_integer(&call, count_channels(client, true));
    free(name.text);
    tell_output(client);
}

void redis_leave_shard(struct redis *redis, bool (*is_gone)(struct bytes channel))
{
    struct redis_client *client;

    DL_FOREACH(redis->clients, client) {
        for (size_t i = client->is_killed ? 0 : client->channel_count; i-- > 0;)
            if (client->channels[i].is_shard && is_gone(client->channels[i].name))
                leave_channel(client, i);
    }
}

static int64_t count_subscribers(const struct redis *redis, struct bytes channel, bool is_shard)
{
    const struct redis_client *client;
    int64_t count = 0;

    DL_FOREACH(redis->clients, client) {
        count += !client->is_killed && find_channel(client, channel, is_shard) >= 0;
    }
    return count;
}

/* PUBSUB NUMSUB channel..., PUBSUB SHARDNUMSUB channel... */
static void run_pubsub(struct call *call)
{
    bool is_shard = bytes_is_word(call->argv[1], "shardnumsub");

    if (!is_shard && !bytes_is_word(call->argv[1], "numsub")) {
        reply_error(call, "ERR syntax error");
        return;
    }
    reply_count(call, 2 * (call->argc - 2));
    for (size_t i = 2; i < call->argc; i++) {
        reply_bytes(call, call->argv[i]);
        reply_integer(call, count_subscribers(call->redis, call->argv[i], is_shard));
    }
}

size_t redis_channels(const struct redis *redis, const char *prefix)
{
    const struct redis_client *client;
    size_t count = 0;

    DL_FOREACH(redis->clients, client) {
        for (size_t i = 0; i < client->channel_count; i++)
            count += strncmp(client->channels[i].name.text, prefix, strlen(prefix)) == 0;
    }
    return count;
}

/* --- about the server ------------------------------------------------------------------------
 */

static void run_ping(struct call *call)
{
    reply_status(call, "PONG");
}

static void run_info(struct call *call)
{
    struct buffer text = {0};

    buffer_format(&text,
                  "# Server\r\nredis_version:7.0.15\r\nrun_id:%s\r\n# Memory\r\n"
                  "maxmemory:%d\r\nmaxmemory_policy:noeviction\r\n# Persistence\r\n"
                  "loading:0\r\n# Replication\r\nrole:%s\r\nmaster_replid2:%s\r\n"
                  "# Cluster\r\ncluster_enabled:%d\r\n",
                  call->redis->run_id, call->redis->is_out_of_memory,
                  call->redis->is_replica ? "slave" : "master", call->redis->former_id,
                  call->redis->is_cluster);
    reply_bytes(call, (struct bytes){text.text, text.len});
    buffer_release(&text);
}

static void kill_client(struct call *call, int64_t id)
{
    struct redis_client *client;
    int64_t killed = 0;

    DL_FOREACH(call->redis->clients, client) {
        if (client->id != id || client->is_killed)
            continue;
        client->is_killed = true;
        client->has_output(client->arg);
        killed++;
    }
    reply_integer(call, killed);
}

/* CLIENT SETNAME name, CLIENT ID, CLIENT KILL ID id. */
static void run_client(struct call *call)
{
    int64_t id;

    if (bytes_is_word(call->argv[1], "setname") && call->argc == 3)
        reply_status(call, "OK");
    else if (bytes_is_word(call->argv[1], "id"))
        reply_integer(call, call->client->id);
    else if (bytes_is_word(call->argv[1], "kill") && call->argc == 4 &&
             bytes_to_integer(call->argv[3], &id))
        kill_client(call, id);
    else
        reply_error(call, "ERR syntax error");
}

const struct command server_commands[] = {
    {"publish", 3, 0, run_publish},
    {"spublish", 3, 0, run_spublish},
    {"ssubscribe", -2, COMMAND_NOT_IN_SCRIPT, run_ssubscribe},
    {"sunsubscribe", -2, COMMAND_NOT_IN_SCRIPT, run_sunsubscribe},
    {"pubsub", -2, 0, run_pubsub},
    {"subscribe", -2, COMMAND_NOT_IN_SCRIPT, run_subscribe},
    {"unsubscribe", -2, COMMAND_NOT_IN_SCRIPT, run_unsubscribe},
    {"ping", 1, COMMAND_NOT_IN_SCRIPT, run_ping},
    {"info", -1, 0, run_info},
    {"client", -2, COMMAND_NOT_IN_SCRIPT, run_client},
    {0}};

/* --- connections
 * ------------------------------------------------------------------------------ */

static void make_id(struct redis *redis, char id[REDIS_ID_LEN + 1])
{
    for (size_t i = 0; i < REDIS_ID_LEN; i++)
        id[i] = "0123456789abcdef"[chance_below(&redis->chance, 16)];
    id[REDIS_ID_LEN] = '\0';
}

static void make_run_id(struct redis *redis)
{
    make_id(redis, redis->run_id);
    memcpy(redis->replication_id, redis->run_id, sizeof(redis->run_id));
    memset(redis->former_id, '0', REDIS_ID_LEN);
}

void redis_init(struct redis *redis, struct redis_counts *counts, struct chance chance,
                int64_t (*clock_us)(void *arg), void *arg)
{
    *redis = (struct redis){
        .counts = counts, .chance = chance, .clock_us = clock_us, .clock_arg = arg};
    make_run_id(redis);
    redis_lua_start(redis);
}

void redis_promote(struct redis *redis)
{
    redis->is_replica = false;
    memcpy(redis->former_id, redis->replication_id, sizeof(redis->former_id));
    make_id(redis, redis->replication_id);
}

void redis_forget_scripts(struct redis *redis)
{
    struct redis_script *script, *next;

    HASH_ITER(hh, redis->scripts, script, next) {
        HASH_DEL(redis->scripts, script);
        free(script);
    }
}

void redis_kill_clients(struct redis *redis)
{
    struct redis_client *client;

    DL_FOREACH(redis->clients, client) {
        client->is_killed = true;
        client->output.len = 0;
        client->has_output(client->arg);
    }
}

void redis_restart(struct redis *redis)
{
    redis_kill_clients(redis);
    redis_forget_scripts(redis);
    make_run_id(redis);
    redis->is_out_of_memory = redis->is_replica = redis->lacks_replicas = false;
}

void redis_release(struct redis *redis)
{
    while (redis->clients != NULL)
        redis_disconnect(redis->clients);
    redis_forget_scripts(redis);
    keyspace_clear(&redis->keys);
    redis_lua_stop(redis);
}

struct redis_client *redis_connect(struct redis *redis, void (*has_output)(void *arg),
                                   void *arg)
{
    struct redis_client *client = zalloc(sizeof(*client));

    client->redis = redis;
    client->id = ++redis->last_client_id;
    client->has_output = has_output;
    client->arg = arg;
    DL_APPEND(redis->clients, client);
    return client;
}

void redis_disconnect(struct redis_client *client)
{
    if (client->redis->peers.left != NULL)
        client->redis->peers.left(client);
    DL_DELETE(client->redis->clients, client);
    while (client->channel_count > 0)
        forget_channel(client, client->channel_count - 1);
    free(client->channels);
    buffer_release(&client->unread);
    buffer_release(&client->output);
    free(client);
}

/* The number of a line "*3" or "$5"; NULL: the line is not there yet. Returns the next one. */
static char *read_line(char *at, const char *end, long *number)
{
    char *line_end = memchr(at, '\r', (size_t)(end - at));

    if (line_end == NULL || line_end + 1 == end)
        return NULL;
    *number = strtol(at + 1, NULL, 10);
    return line_end + 2;
}

/* One whole request at the beginning of what was not read; 0: there is none yet. */
static size_t read_request(struct buffer *unread, struct bytes *argv, size_t *argc)
{
    char *at = unread->text;
    const char *end = at + unread->len;
    long count, len;

    if (unread->len == 0 || (at = read_line(at, end, &count)) == NULL)
        return 0;
    if (count < 1 || count > ARGS_MAX)
        abort();
    for (long i = 0; i < count; i++) {
        if (at == end || (at = read_line(at, end, &len)) == NULL || end - at < len + 2)
            return 0;
        argv[i] = (struct bytes){at, (size_t)len};
        at += len + 2;
    }
    for (long i = 0; i < count; i++)
        argv[i].text[argv[i].len] = '\0'; /* instead of the end of the line */
    *argc = (size_t)count;
    return (size_t)(at - unread->text);
}

void redis_unblock(struct redis_client *client)
{
    client->is_blocked = false;
    redis_receive(client, "", 0);
}

void redis_receive(struct redis_client *client, const char *text, size_t len)
{
    static struct bytes argv[ARGS_MAX];
    size_t argc, used;

    if (client->is_killed)
        return;
    buffer_add(&client->unread, text, len);
    while (!client->is_killed && !client->is_blocked &&
           (used = read_request(&client->unread, argv, &argc)) > 0) {
        struct call call = {.redis = client->redis,
                            .client = client,
                            .argc = argc,
                            .argv = argv,
                            .reply = &client->output};
        size_t before = client->output.len;
        redis_run(&call);
        if (client->redis->observer != NULL)
            client->redis->observer(&call, client->output.text + before,
                                    client->output.len - before);
        buffer_drop(&client->unread, used);
    }
    tell_output(client);
}
