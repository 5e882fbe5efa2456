/* A master that Sentinels watch over: redis-sentinel://. Like a single Redis, but the Sentinels
 * name the server, at each connect and when they replace the master. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/log.h"
#include "storage/topology/sentinels.h"
#include "storage/topology/topology_internal.h"

static const char switched_reason[] = "the Sentinels made another server the master";

struct sentinel {
    struct single single;
    struct sentinels *sentinels;
    struct redis_url master;     /* where the connections go */
    struct redis_host announced; /* the new master, not tried yet; empty: none */
    struct redis_host served;    /* the master that was usable last; empty: none */
    bool is_tried;               /* the named server has not yet been checked */
    bool is_confirming;          /* it has, and a Sentinel is asked for the master once more */
    int64_t failovers;
};

static struct topology_options *options_of(struct sentinel *sentinel)
{
    return &sentinel->single.topology.options;
}

static struct redis_link *commands_of(struct sentinel *sentinel)
{
    return sentinel->single.node.commands;
}

/* --- which master ------------------------------------------------------------------------- */

static void connect_to(struct sentinel *sentinel, const struct redis_host *master)
{
    /* Every host that a Sentinel can name fits. */
    (void)!redis_url_of_server(&sentinel->master, options_of(sentinel)->url, master->host,
                               master->port);
    sentinel->announced.host[0] = '\0';
    sentinel->is_tried = true;
    redis_link_found(commands_of(sentinel), NULL);
}

static void on_find(void *arg)
{
    struct sentinel *sentinel = arg;
    const struct redis_host announced = sentinel->announced;

    if (announced.host[0] != '\0')
        connect_to(sentinel, &announced);
    else
        sentinels_find(sentinel->sentinels);
}

static bool is_another(const struct redis_host *a, const struct redis_host *b)
{
    return a->port != b->port || strcmp(a->host, b->host) != 0;
}

static void on_switched(void *arg, const struct redis_host *master)
{
    struct sentinel *sentinel = arg;

    sentinel->announced = *master;
    redis_link_renew(commands_of(sentinel), switched_reason);
}

/* The server is a master that meets the requirements. It may have been replaced while it was
 * connected to, above all when it stood still. */
static void on_confirm(void *arg)
{
    struct sentinel *sentinel = arg;

    sentinel->is_tried = false;
    sentinel->is_confirming = true;
    sentinels_find(sentinel->sentinels);
}

static void on_found(void *arg, const struct redis_host *master, const char *why_not)
{
    struct sentinel *sentinel = arg;
    bool is_confirming = sentinel->is_confirming;

    sentinel->is_confirming = false;
    if (is_confirming && master == NULL)
        redis_link_reconnect(commands_of(sentinel), why_not);
    else if (is_confirming && is_another(master, &sentinel->master.hosts[0]))
        on_switched(sentinel, master);
    else if (is_confirming)
        redis_link_confirmed(commands_of(sentinel));
    else if (master != NULL)
        connect_to(sentinel, master);
    else
        redis_link_found(commands_of(sentinel), why_not);
}

/* --- the connection to the master --------------------------------------------------------- */

static void on_up(void *arg)
{
    struct sentinel *sentinel = arg;
    const struct redis_host *master = &sentinel->master.hosts[0];
    const struct topology_options *options = options_of(sentinel);

    if (is_another(master, &sentinel->served)) {
        if (sentinel->served.host[0] != '\0') {
            sentinel->failovers++;
            metrics_add(options->metrics, METRIC_REDIS_FAILOVERS, 1);
        }
        sentinel->served = *master;
        subscriber_follow(sentinel->single.node.subscriber);
    } else
        subscriber_check(sentinel->single.node.subscriber);
    options->up(options->arg);
}

static void on_down(void *arg)
{
    struct sentinel *sentinel = arg;
    const struct topology_options *options = options_of(sentinel);

    if (sentinel->is_tried)
        sentinels_distrust(sentinel->sentinels);
    sentinel->is_tried = false;
    sentinel->is_confirming = false;
    options->down(options->arg);
}

/* --- life --------------------------------------------------------------------------------- */

static void sentinel_stop(struct topology *topology)
{
    struct sentinel *sentinel = (struct sentinel *)topology;

    sentinels_stop(sentinel->sentinels);
    single_stop(topology);
}

static void sentinel_free(struct topology *topology)
{
    struct sentinel *sentinel = (struct sentinel *)topology;

    if (sentinel->sentinels != NULL)
        sentinels_stop(sentinel->sentinels);
    topology_node_release(&sentinel->single.node);
    if (sentinel->sentinels != NULL)
        sentinels_free(sentinel->sentinels);
    free(sentinel);
}

static bool start(struct sentinel *sentinel)
{
    const struct topology_options *options = options_of(sentinel);
    const struct sentinels_options sentinels = {.url = options->url,
                                                .loop = options->loop,
                                                .metrics = options->metrics,
                                                .found = on_found,
                                                .switched = on_switched,
                                                .arg = sentinel};
    const struct redis_link_options commands = {.url = &sentinel->master,
                                                .loop = options->loop,
                                                .metrics = options->metrics,
                                                .probe = options->probe,
                                                .sync = options->sync,
                                                .find = on_find,
                                                .confirm = on_confirm,
                                                .up = on_up,
                                                .down = on_down,
                                                .arg = sentinel};

    sentinel->sentinels = sentinels_new(&sentinels);
    return sentinel->sentinels != NULL && single_start_node(&sentinel->single, &commands) == 0;
}

static struct topology *sentinel_start(const struct topology_options *options)
{
    struct sentinel *sentinel = calloc(1, sizeof(*sentinel));

    if (sentinel == NULL)
        return NULL;
    sentinel->single.topology = (struct topology){.ops = &topology_sentinel,
                                                  .options = *options};
    if (start(sentinel))
        return &sentinel->single.topology;
    sentinel_free(&sentinel->single.topology);
    return NULL;
}

static void sentinel_describe(const struct topology *topology, struct topology_state *state)
{
    const struct sentinel *sentinel = (const struct sentinel *)topology;

    *state = (struct topology_state){.name = "sentinel",
                                     .sentinels = sentinels_known(sentinel->sentinels),
                                     .failovers = sentinel->failovers};
}

const struct topology_ops topology_sentinel = {.start = sentinel_start,
                                               .stop = sentinel_stop,
                                               .free = sentinel_free,
                                               .is_ready = single_is_ready,
                                               .trouble = single_trouble,
                                               .describe = sentinel_describe};
