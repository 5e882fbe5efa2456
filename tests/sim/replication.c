/* Replication: a master's changes reach its replicas late, and WAIT waits for the replicas'
 * offsets. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "tests/sim/servers.h"
#include "tests/sim/sockets.h"
#include "tests/sim/world.h"

#define MS CLOCK_NS_PER_MS

/* A connection whose WAIT is not answered yet. */
struct patience {
    struct patience *prev, *next;
    struct redis_client *client;
    int64_t replicas, offset;
    struct timer late;
};

static struct chance chance;
static struct patience *waiting;

static struct server *server_of(const struct redis *redis)
{
    return redis->owner;
}

void replication_init(uint64_t seed)
{
    chance = chance_make(seed, "replication");
}

/* --- WAIT ----------------------------------------------------------------------------------
 */

static int64_t count_acked(const struct server *master, int64_t offset)
{
    int64_t count = 0;

    for (struct server *server = server_next(NULL); server; server = server_next(server))
        count += server->master == master && server->is_synced && server->acked >= offset;
    return count;
}

static void forget(struct patience *patience)
{
    schedule_cancel(&patience->late);
    DL_DELETE(waiting, patience);
    free(patience);
}

static void end_wait(struct patience *patience)
{
    struct redis_client *client = patience->client;
    int64_t count = count_acked(server_of(client->redis), patience->offset);
    struct call call = {.redis = client->redis, .client = client, .reply = &client->output};

    forget(patience);
    if (client->is_killed)
        return;
    reply_integer(&call, count);
    redis_unblock(client);
}

static void on_late(void *arg)
{
    struct patience *patience = arg;

    if (server_of(patience->client->redis)->is_paused)
        schedule_in(&patience->late, 10 * MS);
    else
        end_wait(patience);
}

static void end_waits(const struct server *master)
{
    struct patience *patience, *next;

    DL_FOREACH_SAFE(waiting, patience, next) {
        if (server_of(patience->client->redis) == master &&
            count_acked(master, patience->offset) >= patience->replicas)
            end_wait(patience);
    }
}

/* WAIT numreplicas timeout */
static void run_wait(struct call *call)
{
    const struct server *master = server_of(call->redis);
    int64_t offset = call->client->wrote_to, replicas, timeout_ms;

    if (!read_integer(call, 1, &replicas) || !read_integer(call, 2, &timeout_ms))
        return;
    if (call->redis->is_replica) {
        reply_error(call, "ERR WAIT cannot be used with replica instances. Please also note "
                          "that since Redis 4.0 if a replica is configured to be writable "
                          "(which is not the default) writes to replicas are just local and "
                          "are not propagated.");
        return;
    }
    if (count_acked(master, offset) >= replicas) {
        reply_integer(call, count_acked(master, offset));
        return;
    }
    struct patience *patience = zalloc(sizeof(*patience));
    *patience = (struct patience){.client = call->client,
                                  .replicas = replicas,
                                  .offset = offset,
                                  .late = {.fire = on_late, .arg = patience}};
    call->client->is_blocked = true;
    DL_APPEND(waiting, patience);
    schedule_in(&patience->late, timeout_ms * MS);
}

static void on_left(struct redis_client *client)
{
    struct patience *patience, *next;

    DL_FOREACH_SAFE(waiting, patience, next) {
        if (patience->client == client)
            forget(patience);
    }
}

/* --- changes on their way ------------------------------------------------------------------
 */

/* One block: the texts come behind. */
static struct change *change_new(const struct call *call)
{
    size_t size = sizeof(struct change) + call->argc * sizeof(struct bytes);

    for (size_t i = 0; i < call->argc; i++)
        size += call->argv[i].len + 1;
    struct change *change = zalloc(size);
    char *text = (char *)(change->argv + call->argc);
    change->now_ms = call->now_ms;
    change->argc = call->argc;
    for (size_t i = 0; i < call->argc; i++) {
        change->argv[i] = (struct bytes){text, call->argv[i].len};
        memcpy(text, call->argv[i].text, call->argv[i].len);
        text += call->argv[i].len + 1;
    }
    return change;
}

static void go_on(struct server *replica)
{
    if (!replica->is_cut_off && replica->changes != NULL && !timer_is_armed(&replica->arrive))
        schedule_at(&replica->arrive, replica->changes->at_ns);
}

/* All changes of a script come at once: in Redis they are one transaction. */
static void send_change(struct server *replica, const struct call *call, int64_t offset)
{
    struct change *change = change_new(call);
    int64_t script = call->client == NULL ? call->redis->counts->scripts : 0;
    bool goes_on = script != 0 && script == replica->last_script;

    change->offset = offset;
    change->at_ns = goes_on ? replica->last_ns : now_ns() + latency_ns(&chance);
    if (change->at_ns < replica->last_ns)
        change->at_ns = replica->last_ns;
    replica->last_script = script;
    replica->last_ns = change->at_ns;
    DL_APPEND(replica->changes, change);
    go_on(replica);
}

static void on_wrote(const struct call *call)
{
    struct redis_client *client = call->client != NULL ? call->client
                                                       : call->redis->script_client;
    struct server *master = server_of(call->redis);

    master->offset++;
    client->wrote_to = master->offset;
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        if (server->master == master && server->is_synced)
            send_change(server, call, master->offset);
}

static void drop_changes(struct server *replica)
{
    struct change *change, *next;

    DL_FOREACH_SAFE(replica->changes, change, next) {
        free(change);
    }
    replica->changes = NULL;
    schedule_cancel(&replica->arrive);
    schedule_cancel(&replica->ack);
    schedule_cancel(&replica->sync);
}

static void tell(struct server *replica)
{
    if (replica->is_cut_off || replica->told == replica->offset ||
        timer_is_armed(&replica->ack))
        return;
    replica->told = replica->offset;
    schedule_in(&replica->ack, latency_ns(&chance));
}

static void on_ack(void *arg)
{
    struct server *replica = arg;

    if (replica->master->is_paused) {
        schedule_in(&replica->ack, 10 * MS);
        return;
    }
    replica->acked = replica->told;
    tell(replica);
    end_waits(replica->master);
}

static void on_arrival(void *arg)
{
    struct server *replica = arg;
    struct change *change;

    while ((change = replica->changes) != NULL && change->at_ns <= now_ns()) {
        redis_apply(&replica->redis, change->argv, change->argc, change->now_ms);
        replica->offset = change->offset;
        DL_DELETE(replica->changes, change);
        free(change);
    }
    go_on(replica);
    tell(replica);
}

/* --- who follows whom ----------------------------------------------------------------------
 */

static void on_synced(void *arg)
{
    struct server *replica = arg, *master = replica->master;

    if (replica->is_cut_off || master->is_stopped || master->is_paused || replica->is_stopped ||
        replica->is_paused) {
        schedule_in(&replica->sync, 100 * MS);
        return;
    }
    keyspace_clear(&replica->redis.keys);
    replica->redis.keys = keyspace_copy(&master->redis.keys);
    memcpy(replica->redis.replication_id, master->redis.replication_id,
           sizeof(master->redis.replication_id));
    replica->is_synced = true;
    replica->offset = master->offset;
    replica->told = replica->acked = 0;
    tell(replica);
}

static void lose_master(struct server *replica)
{
    drop_changes(replica);
    replica->is_synced = false;
    replica->told = replica->acked = 0;
}

void replication_follow(struct server *server, struct server *master)
{
    lose_master(server);
    server->redis.is_replica = true;
    server->master = master;
    server->arrive = (struct timer){.fire = on_arrival, .arg = server};
    server->ack = (struct timer){.fire = on_ack, .arg = server};
    server->sync = (struct timer){.fire = on_synced, .arg = server};
    schedule_in(&server->sync, chance_between(&chance, 5, 300) * MS);
}

void replication_cut_off(struct server *server, bool is_cut_off)
{
    server->is_cut_off = is_cut_off;
    if (is_cut_off) {
        schedule_cancel(&server->arrive);
        schedule_cancel(&server->ack);
        server->told = server->acked;
        return;
    }
    go_on(server);
    tell(server);
}

bool replication_is_complete(void)
{
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        if (server->master != NULL && (!server->is_synced || server->is_cut_off ||
                                       server->acked < server->master->offset))
            return false;
    return true;
}

/* The Sentinels choose the replica that has most, of those that they reach: any, unless fewer
 * than all have to confirm a change. */
static struct server *choose_replica(void)
{
    bool is_any = world.sync_replicas == 0 || world.sync_replicas == world.replicas;
    struct server *best = NULL;
    unsigned seen = 0;

    for (struct server *server = server_next(NULL); server; server = server_next(server)) {
        if (server->master != world.master || !server->is_synced)
            continue;
        if (best == NULL ||
            (is_any ? chance_below(&chance, seen + 1) == 0 : server->offset > best->offset))
            best = server;
        seen++;
    }
    return best;
}

void replication_promote(void)
{
    struct server *former = world.master, *master = choose_replica();

    lose_master(master);
    master->master = NULL;
    master->is_cut_off = false;
    redis_promote(&master->redis);
    world.master = master;
    world.failovers++;
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        if (server->master == former) {
            server->is_cut_off = false;
            replication_follow(server, master);
        }
}

void replication_lose_sent(const struct server *master)
{
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        if (server->master == master)
            drop_changes(server);
}

void replication_restart(struct server *master)
{
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        if (server->master == master)
            replication_follow(server, master);
    redis_restart(&master->redis);
}

static const struct command commands[] = {{"wait", 3, COMMAND_NOT_IN_SCRIPT, run_wait}, {0}};
const struct redis_peers replication_peers = {
    .commands = commands, .wrote = on_wrote, .left = on_left};
