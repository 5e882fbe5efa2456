/* A Redis Cluster of masters: who has a slot, what each master knows of that, slots that move
 * key by key, and a master that is cut off from the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/redis/slot.h"
#include "tests/sim/servers.h"
#include "tests/sim/sockets.h"
#include "tests/sim/world.h"

#define MS CLOCK_NS_PER_MS

enum { NOBODY = 255, SPREAD_MS = 1000, ID_LEN = 40 };

/* A message on its way to the other masters. */
struct news {
    struct timer timer;
    struct redis *to;
    struct bytes channel, text;
};

static struct chance chance;
static int masters;
static uint8_t owners[REDIS_SLOTS];
static uint8_t moving_to[REDIS_SLOTS];          /* from its owner; NOBODY: it stays */
static uint8_t known[MASTERS_MAX][REDIS_SLOTS]; /* the owners, as each master knows */
static int moving;                              /* slots */
static struct timer spread[MASTERS_MAX];

static const struct server *server_of(const struct redis *redis)
{
    return redis->owner;
}

static uint16_t slot_of(struct bytes key)
{
    const struct redis_tag tag = redis_tag_of(key.text, key.len);

    return redis_slot_of(&tag);
}

/* --- which master --------------------------------------------------------------------------
 */

/* The keys of a command. */
static size_t keys_of(const struct call *call, size_t *first)
{
    static const char *const without[] = {"ping",      "info",    "client", "publish",
                                          "subscribe", "cluster", "asking", "unsubscribe",
                                          "scan",      "time",    "pubsub", "sunsubscribe"};
    static const char *const many[] = {"del", "unlink", "exists", "mget", "ssubscribe"};
    struct bytes word = call->argv[0];
    int64_t count;

    *first = 1;
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
        if (bytes_is_word(word, without[i]))
            return 0;
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
        if (bytes_is_word(word, many[i]))
            return call->argc - 1;
    if (!bytes_is_word(word, "eval") && !bytes_is_word(word, "evalsha"))
        return 1;
    *first = 3;
    return bytes_to_integer(call->argv[2], &count) && count > 0 &&
                   count <= (int64_t)call->argc - 3
               ? (size_t)count
               : 0;
}

static bool is_of_shard(const struct call *call)
{
    return bytes_is_word(call->argv[0], "ssubscribe") ||
           bytes_is_word(call->argv[0], "spublish");
}

static const char *redirect(const char *word, uint16_t slot, int to)
{
    static char text[64];

    snprintf(text, sizeof(text), "%s %d 127.0.0.1:%d", word, slot,
             server_port(server_at_index(to)));
    return text;
}

/* The answer of Redis to a command with keys of one slot; NULL: it runs here. */
static const char *find_refusal(const struct call *call, size_t first, size_t count, bool asks)
{
    const struct server *server = server_of(call->redis);
    uint16_t slot = slot_of(call->argv[first]);
    size_t missing = 0;

    for (size_t i = first + 1; call->client != NULL && i < first + count; i++)
        if (slot_of(call->argv[i]) != slot)
            return "CROSSSLOT Keys in request don't hash to the same slot";
    if (server->is_down)
        return "CLUSTERDOWN The cluster is down";
    int owner = known[server->number][slot];
    bool leaves = owner == server->number && moving_to[slot] != NOBODY;
    bool comes = owner != server->number && moving_to[slot] == server->number;
    int64_t now_ms = call->redis->clock_us(call->redis->clock_arg) / 1000;
    for (size_t i = first; (leaves || comes) && !is_of_shard(call) && i < first + count; i++)
        missing += keyspace_find(&call->redis->keys, call->argv[i], now_ms) == NULL;
    if (leaves && missing > 0)
        return missing < count ? "TRYAGAIN Multiple keys request during rehashing of slot"
                               : redirect("ASK", slot, moving_to[slot]);
    if (comes && asks)
        return count > 1 && missing > 0
                   ? "TRYAGAIN Multiple keys request during rehashing of slot"
                   : NULL;
    return owner == server->number ? NULL : redirect("MOVED", slot, owner);
}

static const char *refusal_of(const struct call *call)
{
    struct redis_client *client = call->client != NULL ? call->client
                                                       : call->redis->script_client;
    bool asks = client->is_asking;
    size_t first, count;

    if (call->client != NULL)
        client->is_asking = false;
    if (client->is_trusted || (call->client == NULL && moving == 0) ||
        (count = keys_of(call, &first)) == 0)
        return NULL;
    if (call->client == NULL)
        asks = call->redis->script_asks;
    else
        call->redis->script_asks = asks;
    const char *refusal = find_refusal(call, first, count, asks);
    if (refusal == NULL || call->client != NULL)
        return refusal;
    return "ERR Script attempted to access a non local key in a cluster node";
}

struct server *cluster_owner(struct bytes key)
{
    uint16_t slot = slot_of(key);
    struct server *owner = server_at_index(owners[slot]);

    if (moving_to[slot] == NOBODY ||
        keyspace_find(&owner->redis.keys, key, servers_clock_us() / 1000) != NULL)
        return owner;
    struct server *next = server_at_index(moving_to[slot]);
    return keyspace_find(&next->redis.keys, key, servers_clock_us() / 1000) != NULL ? next
                                                                                    : owner;
}

/* --- what masters are asked and tell -------------------------------------------------------
 */

static void reply_range(struct call *call, int from, int to, int owner)
{
    const struct server *server = server_at_index(owner);

    reply_count(call, 3);
    reply_integer(call, from);
    reply_integer(call, to);
    reply_count(call, 3);
    reply_bytes(call, bytes_of("127.0.0.1"));
    reply_integer(call, server_port(server));
    reply_bytes(call, bytes_of(server->redis.run_id));
}

/* CLUSTER SLOTS */
static void run_cluster(struct call *call)
{
    const uint8_t *map = known[server_of(call->redis)->number];
    struct buffer ranges = {0};
    struct call inner = *call;
    size_t count = 0;

    if (!bytes_is_word(call->argv[1], "slots")) {
        reply_error(call, "ERR unknown subcommand");
        return;
    }
    inner.reply = &ranges;
    for (int from = 0, slot = 1; slot <= REDIS_SLOTS; slot++) {
        if (slot < REDIS_SLOTS && map[slot] == map[from])
            continue;
        reply_range(&inner, from, slot - 1, map[from]);
        from = slot;
        count++;
    }
    reply_count(call, count);
    buffer_add(call->reply, ranges.text, ranges.len);
    buffer_release(&ranges);
}

static void run_asking(struct call *call)
{
    call->client->is_asking = true;
    reply_status(call, "OK");
}

static void on_news(void *arg)
{
    struct news *news = arg;

    redis_publish(news->to, news->channel, news->text);
    free(news->channel.text);
    free(news->text.text);
    free(news);
}

static void on_published(const struct redis *redis, struct bytes channel, struct bytes text)
{
    for (int i = 0; i < masters; i++) {
        struct server *other = server_at_index(i);
        if (&other->redis == redis || other->is_cut_off || server_of(redis)->is_cut_off)
            continue;
        struct news *news = zalloc(sizeof(*news));
        *news = (struct news){.timer = {.fire = on_news, .arg = news},
                              .to = &other->redis,
                              .channel = bytes_copy(channel),
                              .text = bytes_copy(text)};
        schedule_in(&news->timer, latency_ns(&chance));
    }
}

static const struct command commands[] = {{"cluster", -2, COMMAND_NOT_IN_SCRIPT, run_cluster},
                                          {"asking", 1, COMMAND_NOT_IN_SCRIPT, run_asking},
                                          {0}};
const struct redis_peers cluster_peers = {
    .commands = commands, .refusal = refusal_of, .published = on_published};

/* --- slots that move -----------------------------------------------------------------------
 */

static uint8_t leaver;

static bool is_elsewhere(struct bytes channel)
{
    return known[leaver][slot_of(channel)] != leaver;
}

static void learn(struct server *server)
{
    memcpy(known[server->number], owners, sizeof(owners));
    leaver = (uint8_t)server->number;
    redis_leave_shard(&server->redis, is_elsewhere);
}

static void on_spread(void *arg)
{
    struct server *server = arg;

    if (server->is_cut_off || server->is_paused)
        schedule_in(&spread[server->number], 100 * MS);
    else
        learn(server);
}

static void tell_others(void)
{
    for (int i = 0; i < masters; i++)
        schedule_in(&spread[i], chance_between(&chance, 0, SPREAD_MS) * MS);
}

void cluster_init(int count, uint64_t seed)
{
    chance = chance_make(seed, "cluster");
    masters = count;
    memset(moving_to, NOBODY, sizeof(moving_to));
    for (int slot = 0; slot < REDIS_SLOTS; slot++)
        owners[slot] = (uint8_t)(slot * count / REDIS_SLOTS);
    for (int i = 0; i < count; i++) {
        spread[i] = (struct timer){.fire = on_spread, .arg = server_at_index(i)};
        memcpy(known[i], owners, sizeof(owners));
    }
}

bool cluster_begin_move(struct bytes key, uint16_t *slot)
{
    *slot = slot_of(key);
    if (moving_to[*slot] != NOBODY)
        return false;
    moving_to[*slot] = (uint8_t)((owners[*slot] + chance_between(&chance, 1, masters - 1)) %
                                 masters);
    moving++;
    return true;
}

bool cluster_move_key(uint16_t slot)
{
    struct keyspace *from = &server_at_index(owners[slot])->redis.keys;
    struct keyspace *to = &server_at_index(moving_to[slot])->redis.keys;

    for (struct value *value = from->values; value != NULL; value = value->hh.next)
        if (slot_of((struct bytes){value->key, value->key_len}) == slot) {
            keyspace_move(from, to, value);
            return true;
        }
    return false;
}

void cluster_end_move(uint16_t slot)
{
    struct server *from = server_at_index(owners[slot]), *to = server_at_index(moving_to[slot]);

    owners[slot] = moving_to[slot];
    moving_to[slot] = NOBODY;
    moving--;
    known[from->number][slot] = known[to->number][slot] = owners[slot];
    leaver = (uint8_t)from->number;
    redis_leave_shard(&from->redis, is_elsewhere);
    tell_others();
}
