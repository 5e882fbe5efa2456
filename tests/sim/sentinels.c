/* The Sentinels: whom they name, and what they tell of a failover. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/servers.h"
#include "tests/sim/world.h"

#define MS CLOCK_NS_PER_MS
#define MASTER_NAME "mymaster"
#define HOST "127.0.0.1"

/* How long after the first of them the other Sentinels know of a failover. */
enum { HELLO_MS = 2000 };

static struct chance chance;

/* --- what they answer ----------------------------------------------------------------------
 */

static void reply_port(struct call *call, const struct server *server)
{
    char port[8];

    snprintf(port, sizeof(port), "%d", server_port(server));
    reply_bytes(call, bytes_of(port));
}

static void reply_master(struct call *call, const struct server *sentinel)
{
    char epoch[24];

    snprintf(epoch, sizeof(epoch), "%lld", (long long)sentinel->epoch);
    reply_count(call, 8);
    reply_bytes(call, bytes_of("name"));
    reply_bytes(call, bytes_of(MASTER_NAME));
    reply_bytes(call, bytes_of("ip"));
    reply_bytes(call, bytes_of(HOST));
    reply_bytes(call, bytes_of("port"));
    reply_port(call, sentinel->named);
    reply_bytes(call, bytes_of("config-epoch"));
    reply_bytes(call, bytes_of(epoch));
}

static void reply_others(struct call *call, const struct server *sentinel)
{
    reply_count(call, SENTINELS - 1);
    for (struct server *other = server_next(NULL); other; other = server_next(other)) {
        if (!other->is_sentinel || other == sentinel)
            continue;
        reply_count(call, 4);
        reply_bytes(call, bytes_of("ip"));
        reply_bytes(call, bytes_of(HOST));
        reply_bytes(call, bytes_of("port"));
        reply_port(call, other);
    }
}

static void run_sentinel(struct call *call)
{
    const struct server *sentinel = call->redis->owner;

    if (!bytes_is_word(call->argv[2], MASTER_NAME)) {
        reply_error(call, "ERR No such master with that name");
    } else if (bytes_is_word(call->argv[1], "get-master-addr-by-name")) {
        reply_count(call, 2);
        reply_bytes(call, bytes_of(HOST));
        reply_port(call, sentinel->named);
    } else if (bytes_is_word(call->argv[1], "master")) {
        reply_master(call, sentinel);
    } else if (bytes_is_word(call->argv[1], "sentinels")) {
        reply_others(call, sentinel);
    } else {
        reply_error(call, "ERR unknown subcommand");
    }
}

static const struct command commands[] = {{"sentinel", 3, COMMAND_NOT_IN_SCRIPT, run_sentinel},
                                          {0}};
const struct redis_peers sentinel_peers = {.commands = commands};

/* --- what they learn -----------------------------------------------------------------------
 */

static void on_learn(void *arg)
{
    struct server *sentinel = arg;
    char message[80];

    if (sentinel->is_paused) {
        schedule_in(&sentinel->learn, chance_between(&chance, 20, HELLO_MS) * MS);
        return;
    }
    if (sentinel->named == world.master)
        return;
    snprintf(message, sizeof(message), MASTER_NAME " " HOST " %d " HOST " %d",
             server_port(sentinel->named), server_port(world.master));
    sentinel->named = world.master;
    sentinel->epoch = world.failovers;
    trace("SENTINEL %d: +switch-master %s", sentinel->number, message);
    redis_publish(&sentinel->redis, bytes_of("+switch-master"), bytes_of(message));
}

void sentinels_init(uint64_t seed)
{
    chance = chance_make(seed, "sentinels");
    for (struct server *server = server_next(NULL); server; server = server_next(server))
        server->learn = (struct timer){.fire = on_learn, .arg = server};
}

struct server *sentinels_pick(struct chance *of)
{
    uint64_t at = chance_below(of, SENTINELS);

    for (struct server *server = server_next(NULL);; server = server_next(server))
        if (server->is_sentinel && at-- == 0)
            return server;
}

void sentinels_switch(void)
{
    const struct server *first = sentinels_pick(&chance);

    for (struct server *server = server_next(NULL); server; server = server_next(server))
        if (server->is_sentinel)
            schedule_in(&server->learn,
                        server == first ? MS : chance_between(&chance, 1, HELLO_MS) * MS);
}
