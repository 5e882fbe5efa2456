/* Where a call goes: to the master of its slot, and from there where that master says. A call
 * for one node goes to that node, and nowhere from there.
 *
 * Calls of one slot run in the order in which they were asked for, whatever moves. A withdrawal
 * must not overtake the attempt that it takes back. One master answers in order; so while a
 * call of a slot is on its way from one master to another, every later call of that slot waits
 * (struct slot_hold) until all that were sent are answered. Then the first one goes alone, and
 * the others when it was served. A call that was sent and lost with its connection is unknown,
 * and goes nowhere else. (A slot whose move is called off between two calls lets the second one
 * go first, as a script that Redis has forgotten does: an attempt that is granted after all
 * that asked for it has gone is withdrawn once more.)
 *
 * While a slot is moved key by key, its old master has some of its keys and the new one the
 * others. A script goes on when all its keys are in one place again: scripts begin with a
 * command that both masters refuse until then (storage/scripts/link.awk), so that none ends in
 * its midst. A command, which has one key, follows ASK. Nothing waits for longer than a
 * connection may be silent: then the call is refused, and was not executed. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "storage/topology/cluster_call.h"

#define RETRY_MAX_NS (80 * CLOCK_NS_PER_MS)

enum {
    MOVES_MAX = 5,    /* of one call, from node to node */
    HELD_MAX = 100000 /* calls that wait, of all slots: more are refused */
};

enum verdict {
    CALL_ENDS,
    CALL_GOES_ON, /* is on its way to the node that ASK named */
    CALL_MOVES,   /* to the new owner of the slot, now or soon */
    CALL_WAITS    /* until one node has all keys of the slot */
};

static void on_reply(void *arg, const struct redis_result *result);

static void send(struct cluster_call *call)
{
    struct cluster *cluster = call->cluster;
    struct cluster_node *node = cluster->owners[call->slot];

    if (node != NULL && !node->is_stopped) {
        cluster_call_send(call, node, on_reply);
        return;
    }
    cluster_scout_ask(cluster);
    cluster_call_refuse(call);
}

/* --- holds -------------------------------------------------------------------------------- */

/* The owner of a slot may have changed since it was asked whether leases are granted there. */
static bool may_grant(const struct cluster *cluster, const struct cluster_node *node)
{
    const struct topology_options *options = &cluster->topology.options;

    return options->may_grant == NULL || node == NULL ||
           options->may_grant(options->arg, &node->node);
}

/* The next call that waited and may be sent; refuses what may not. */
static struct cluster_call *take_held(struct cluster *cluster, struct slot_hold *hold)
{
    bool grants = may_grant(cluster, cluster->owners[hold->slot]);
    struct cluster_call *call;

    while ((call = cluster_take_held(cluster, hold)) != NULL && !grants && !call->is_command &&
           script_row(call->script)->grants) {
        call->refusal = REDIS_QUARANTINED;
        cluster_call_refuse(call);
    }
    return call;
}

/* Everything that waited is sent: no callback comes of that before this returns. */
static void release_hold(struct cluster *cluster, struct slot_hold *hold)
{
    struct cluster_call *call;

    HASH_DEL(cluster->holds, hold);
    while ((call = take_held(cluster, hold)) != NULL)
        send(call);
    free(hold);
}

/* Sends the first call when the time has come. */
static void try_hold(struct cluster *cluster, struct slot_hold *hold)
{
    int64_t now_ns = loop_now_ns(cluster->topology.options.loop);
    const struct cluster_node *owner = cluster->owners[hold->slot];

    if (cluster->in_flight[hold->slot] > 0 || now_ns < hold->retry_ns)
        return;
    /* The connection to the new owner may still be under way. */
    if (now_ns < hold->until_ns && (owner == NULL || !cluster_node_is_up(owner)))
        return;
    struct cluster_call *first = now_ns < hold->until_ns ? take_held(cluster, hold) : NULL;
    if (first == NULL) {
        release_hold(cluster, hold);
        return;
    }
    hold->is_probing = true;
    send(first);
}

static bool is_late(const struct cluster_call *call)
{
    return loop_now_ns(call->cluster->topology.options.loop) - call->asked_ns >=
           CLUSTER_HOLD_PATIENCE_NS;
}

static void refuse_late(struct cluster *cluster, struct cluster_call **list)
{
    struct cluster_call *call, *next;

    DL_FOREACH_SAFE(*list, call, next) {
        if (!is_late(call))
            continue;
        DL_DELETE(*list, call);
        cluster->held--;
        cluster_call_refuse(call);
    }
}

static void on_tick(void *arg)
{
    struct cluster *cluster = arg;
    struct slot_hold *hold, *next;

    HASH_ITER(hh, cluster->holds, hold, next) {
        refuse_late(cluster, &hold->redirected);
        refuse_late(cluster, &hold->later);
        try_hold(cluster, hold);
    }
    if (cluster->holds != NULL)
        timer_arm(loop_timers(cluster->topology.options.loop), &cluster->hold_tick,
                  loop_now_ns(cluster->topology.options.loop) + CLUSTER_HOLD_TICK_NS);
}

/* A call that was sent comes back, in the order of sending. */
static void requeue(struct cluster_call *call, bool waits)
{
    struct cluster *cluster = call->cluster;
    struct slot_hold *hold = cluster_make_hold(cluster, call->slot);

    if (hold->is_probing)
        DL_PREPEND(hold->redirected, call);
    else
        DL_APPEND(hold->redirected, call);
    cluster->held++;
    if (!waits)
        return;
    hold->retry_ns = loop_now_ns(cluster->topology.options.loop) + hold->wait_ns;
    if (cluster->in_flight[call->slot] == 0 && hold->wait_ns < RETRY_MAX_NS)
        hold->wait_ns *= 2;
}

/* A call of this slot was answered, or went back. */
static void settle_hold(struct cluster *cluster, uint16_t slot, bool is_served)
{
    struct slot_hold *hold = cluster_find_hold(cluster, slot);

    if (hold == NULL || cluster->in_flight[slot] > 0)
        return;
    hold->is_probing = false;
    if (is_served && hold->retry_ns <= loop_now_ns(cluster->topology.options.loop))
        release_hold(cluster, hold);
    else
        try_hold(cluster, hold);
}

static void dispatch(struct cluster_call *call)
{
    struct cluster *cluster = call->cluster;
    struct slot_hold *hold = cluster_find_hold(cluster, call->slot);

    if (cluster->is_stopped || (hold != NULL && cluster->held >= HELD_MAX)) {
        cluster_call_refuse(call);
    } else if (hold != NULL) {
        DL_APPEND(hold->later, call);
        cluster->held++;
    } else {
        send(call);
    }
}

/* --- replies ------------------------------------------------------------------------------ */

static void count(struct cluster *cluster, enum metric metric)
{
    metrics_add(cluster->topology.options.metrics, metric, 1);
}

/* The map is old. */
static void note_move(struct cluster *cluster, uint16_t slot, const struct redis_host *to)
{
    count(cluster, METRIC_REDIS_MOVED);
    cluster_scout_moved(cluster, slot, to);
}

static enum verdict follow_move(struct cluster_call *call, const struct redis_host *to)
{
    struct cluster *cluster = call->cluster;
    struct cluster_node *node = cluster_node_at(cluster, to);

    note_move(cluster, call->slot, to);
    if (node == NULL)
        return CALL_ENDS;
    cluster_slot_moved(cluster, call->slot, node);
    return CALL_MOVES;
}

static void on_asking(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result; /* the reply of the next command shows whether ASKING arrived */
}

/* The node accepts the command behind ASKING; no other command comes in between. A script
 * waits, and is told ASK each time that it tries the slot again: that is no move. */
static enum verdict follow_ask(struct cluster_call *call, const struct redis_host *to)
{
    static const char *const argv[] = {"ASKING"};
    static const size_t lens[] = {6};
    static const struct redis_command asking = {.argc = 1, .argv = argv, .lens = lens};
    struct cluster_node *node = cluster_node_at(call->cluster, to);

    count(call->cluster, METRIC_REDIS_ASKED);
    if (!call->is_command || node == NULL || !cluster_node_is_up(node) ||
        ++call->moves > MOVES_MAX)
        return CALL_WAITS;
    redis_link_command(node->node.commands, &asking, on_asking, NULL);
    cluster_call_send(call, node, on_reply);
    return CALL_GOES_ON;
}

/* A call for one node ends with its redirection, which is news of the map all the same. */
static enum verdict heed_redirection(const struct cluster_call *call, const char *error)
{
    struct redis_host to;
    uint16_t slot;

    if (cluster_redirection_read(error, call->node->at.host, &slot, &to) == CLUSTER_MOVED)
        note_move(call->cluster, slot, &to);
    return CALL_ENDS;
}

/* Whether the error says that the cluster, or this node of it, serves no calls. */
static bool is_trouble(const char *cause)
{
    static const char *const words[] = {"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strncmp(cause, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static enum verdict judge(struct cluster_call *call, const struct redis_result *result)
{
    struct cluster *cluster = call->cluster;
    const char *error = value_error(result->reply), *cause = redis_error_cause(error);
    struct redis_host to;
    uint16_t slot;

    if (result->outcome == REDIS_DONE)
        return CALL_ENDS;
    if (error[0] == '\0' || is_trouble(cause))
        cluster_scout_ask(cluster);
    if (strncmp(cause, "CLUSTERDOWN", 11) == 0) {
        cluster_node_says_down(call->node);
        cluster_scout_down(cluster,
                           call->slot < REDIS_SLOTS ? call->slot : call->node->last_slot,
                           &call->node->at);
    }
    if (result->outcome != REDIS_REFUSED || cluster->is_stopped || is_late(call))
        return CALL_ENDS;
    if (call->slot == REDIS_SLOTS)
        return heed_redirection(call, error);
    switch (cluster_redirection_read(error, call->node->at.host, &slot, &to)) {
    case CLUSTER_MOVED:
        return slot == call->slot && ++call->moves <= MOVES_MAX ? follow_move(call, &to)
                                                                : CALL_ENDS;
    case CLUSTER_ASK:
        return follow_ask(call, &to);
    case CLUSTER_NOT_REDIRECTED:
        break;
    }
    if (strncmp(cause, "TRYAGAIN", 8) != 0 && !redis_is_moving(error))
        return CALL_ENDS;
    count(cluster, METRIC_REDIS_TRIED_AGAIN);
    return CALL_WAITS;
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct cluster_call *call = arg;
    struct cluster *cluster = call->cluster;
    uint16_t slot = call->slot;

    call->node->in_flight--;
    if (slot < REDIS_SLOTS)
        cluster->in_flight[slot]--;
    enum verdict verdict = judge(call, result);
    if (verdict == CALL_GOES_ON)
        return;
    if (verdict != CALL_ENDS)
        requeue(call, verdict == CALL_WAITS);
    /* Calls that wait go first: the callback may ask for more. */
    if (slot < REDIS_SLOTS)
        settle_hold(cluster, slot, verdict == CALL_ENDS);
    if (verdict == CALL_ENDS)
        cluster_call_end(call, result);
}

/* --- the functions of the topology -------------------------------------------------------- */

static struct cluster_call *script_new(struct topology *topology,
                                       const struct script_call *script, redis_done *done,
                                       void *arg)
{
    const struct script_args *args = script->args;
    struct cluster_call *call = cluster_call_new((struct cluster *)topology, args->keys,
                                                 args->key_count, args->args, args->count, done,
                                                 arg);

    call->script = script->script;
    return call;
}

void cluster_script(struct topology *topology, const struct script_call *script,
                    redis_done *done, void *arg)
{
    struct cluster_call *call = script_new(topology, script, done, arg);

    call->slot = redis_slot_of(&script->tag);
    dispatch(call);
}

static struct cluster_call *command_new(struct topology *topology,
                                        const struct redis_command *command, redis_done *done,
                                        void *arg)
{
    struct script_text *texts = malloc(command->argc * sizeof(*texts));

    assert(texts != NULL);
    for (size_t i = 0; i < command->argc; i++)
        texts[i] = (struct script_text){command->argv[i], command->lens[i]};
    struct cluster_call *call = cluster_call_new((struct cluster *)topology, NULL, 0, texts,
                                                 command->argc, done, arg);
    call->is_command = true;
    free(texts);
    return call;
}

void cluster_command(struct topology *topology, const struct redis_tag *tag,
                     const struct redis_command *command, redis_done *done, void *arg)
{
    struct cluster_call *call = command_new(topology, command, done, arg);

    call->slot = redis_slot_of(tag);
    dispatch(call);
}

static void send_to_node(struct cluster_call *call, struct topology_node *node)
{
    call->slot = REDIS_SLOTS;
    if (call->cluster->is_stopped || node == NULL)
        cluster_call_refuse(call);
    else
        cluster_call_send(call, (struct cluster_node *)node, on_reply);
}

void cluster_node_command(struct topology *topology, struct topology_node *node,
                          const struct redis_command *command, redis_done *done, void *arg)
{
    send_to_node(command_new(topology, command, done, arg), node);
}

void cluster_node_script(struct topology *topology, struct topology_node *node,
                         const struct script_call *script, redis_done *done, void *arg)
{
    send_to_node(script_new(topology, script, done, arg), node);
}

void cluster_calls_init(struct cluster *cluster)
{
    cluster->refuse = (struct timer){.fire = cluster_calls_refuse, .arg = cluster};
    cluster->hold_tick = (struct timer){.fire = on_tick, .arg = cluster};
}

void cluster_calls_stop(struct cluster *cluster)
{
    struct timers *timers = loop_timers(cluster->topology.options.loop);
    struct slot_hold *hold, *next;
    struct cluster_call *call;

    HASH_ITER(hh, cluster->holds, hold, next) {
        while ((call = cluster_take_held(cluster, hold)) != NULL)
            cluster_call_refuse(call);
        HASH_DEL(cluster->holds, hold);
        free(hold);
    }
    while (cluster->refused != NULL)
        cluster_calls_refuse(cluster);
    timer_cancel(timers, &cluster->refuse);
    timer_cancel(timers, &cluster->hold_tick);
}
