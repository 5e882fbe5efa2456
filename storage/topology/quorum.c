/* A quorum: redis-quorum://. Every server has all keys, and what a majority of them has decided
 * holds. So a script or command goes to no single server: the runner, which the store has
 * named, asks all of them and gives one answer. */
#include <assert.h>
#include <stdlib.h>

#include "storage/topology/quorum_internal.h"

static struct quorum *quorum_of(struct topology *topology)
{
    return (struct quorum *)topology;
}

static bool quorum_is_ready(const struct topology *topology, const char **why_not)
{
    struct quorum *quorum = quorum_of((struct topology *)topology);

    if (why_not != NULL)
        *why_not = quorum_members_trouble(quorum);
    return quorum_members_up(quorum) >= quorum_needs(quorum);
}

/* The trouble of a minority is that of no lock. A URL with one server twice has fewer servers
 * than its operator thinks, which has to be noticed before one more is lost. */
static const char *quorum_trouble(const struct topology *topology, bool *is_everywhere)
{
    struct quorum *quorum = quorum_of((struct topology *)topology);

    *is_everywhere = quorum_members_have_twins(quorum);
    return quorum_members_trouble(quorum);
}

static void quorum_describe(const struct topology *topology, struct topology_state *state)
{
    *state = (struct topology_state){.name = "quorum",
                                     .nodes = ((const struct quorum *)topology)->count};
}

/* --- nodes -------------------------------------------------------------------------------- */

/* No key is at one node alone. */
static struct topology_node *quorum_node_of(struct topology *topology,
                                            const struct redis_tag *tag)
{
    (void)topology;
    (void)tag;
    return NULL;
}

static struct topology_node *quorum_next_node(struct topology *topology,
                                              struct topology_node *node)
{
    struct quorum *quorum = quorum_of(topology);
    size_t next = node == NULL ? 0 : topology_node_number(node) + 1;

    return next < quorum->count ? &quorum->members[next].node : NULL;
}

static uint16_t quorum_slot_at(const struct topology_node *node)
{
    return (uint16_t)(TOPOLOGY_ALL_SLOTS + topology_node_number(node));
}

size_t topology_quorum_nodes(const struct topology *topology)
{
    return topology->ops->is_quorum ? ((const struct quorum *)topology)->count : 0;
}

bool topology_has_majority(struct topology *topology)
{
    size_t nodes = topology_quorum_nodes(topology), up = 0;

    for (size_t i = 0; i < nodes; i++)
        up += topology_node_is_up(&quorum_of(topology)->members[i].node, NULL);
    return nodes == 0 || 2 * up > nodes;
}

void topology_set_runner(struct topology *topology, const struct topology_runner *runner)
{
    assert(topology->ops->is_quorum);
    quorum_of(topology)->runner = *runner;
}

/* --- calls -------------------------------------------------------------------------------- */

static void quorum_script(struct topology *topology, const struct script_call *call,
                          redis_done *done, void *arg)
{
    const struct topology_runner *runner = &quorum_of(topology)->runner;

    runner->script(runner->arg, call, done, arg);
}

static void quorum_command(struct topology *topology, const struct redis_tag *tag,
                           const struct redis_command *command, redis_done *done, void *arg)
{
    const struct topology_runner *runner = &quorum_of(topology)->runner;

    (void)tag;
    runner->command(runner->arg, command, done, arg);
}

static void quorum_node_command(struct topology *topology, struct topology_node *node,
                                const struct redis_command *command, redis_done *done,
                                void *arg)
{
    const struct topology_runner *runner = &quorum_of(topology)->runner;

    if (node != NULL)
        redis_link_command(node->commands, command, done, arg);
    else /* which refuses a command about the keys of one node */
        runner->command(runner->arg, command, done, arg);
}

static void quorum_node_script(struct topology *topology, struct topology_node *node,
                               const struct script_call *call, redis_done *done, void *arg)
{
    (void)topology;
    redis_link_script(node->commands, call, done, arg);
}

/* --- life --------------------------------------------------------------------------------- */

static void quorum_stop(struct topology *topology)
{
    struct quorum *quorum = quorum_of(topology);

    quorum->is_stopped = true;
    quorum_members_stop(quorum);
    if (quorum->runner.stop != NULL)
        quorum->runner.stop(quorum->runner.arg);
}

static void quorum_free(struct topology *topology)
{
    struct quorum *quorum = quorum_of(topology);

    quorum_members_free(quorum);
    free(quorum);
}

static struct topology *quorum_start(const struct topology_options *options)
{
    struct quorum *quorum = calloc(1, sizeof(*quorum));

    if (quorum == NULL)
        return NULL;
    quorum->topology = (struct topology){.ops = &topology_quorum, .options = *options};
    if (quorum_members_start(quorum))
        return &quorum->topology;
    quorum_free(&quorum->topology);
    return NULL;
}

const struct topology_ops topology_quorum = {.is_quorum = true,
                                             .start = quorum_start,
                                             .stop = quorum_stop,
                                             .free = quorum_free,
                                             .is_ready = quorum_is_ready,
                                             .trouble = quorum_trouble,
                                             .describe = quorum_describe,
                                             .node_of = quorum_node_of,
                                             .next_node = quorum_next_node,
                                             .slot_at = quorum_slot_at,
                                             .script = quorum_script,
                                             .command = quorum_command,
                                             .node_command = quorum_node_command,
                                             .node_script = quorum_node_script,
                                             .subscribe = quorum_subscribe,
                                             .unsubscribe = quorum_unsubscribe};
