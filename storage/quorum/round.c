/* The rounds of a quorum: what was asked, and what has come. */
#include "storage/quorum/round.h"

#include <assert.h>

#include "server/base/clock.h"

/* A server that does not reply for so long is left out. */
#define ROUND_NS (1 * CLOCK_NS_PER_S)
/* KEYS and ARGV of most scripts are shorter, with what the protocol adds to them. */
enum { SHARED_SIZE = 4096 };

/* One request under way; it outlives its round. */
struct round_ask {
    struct round *round; /* NULL: nobody waits for the reply any more */
    struct pool *pool;   /* that it is from */
    struct topology_node *topology_node;
    size_t node;
    bool awaits_first; /* the reply to the script before it is still to come */
    bool has_overtaken;
};

node_set nodes_connected(struct topology *topology)
{
    node_set set = 0;

    for (struct topology_node *node = topology_next_node(topology, NULL); node != NULL;
         node = topology_next_node(topology, node))
        if (topology_node_is_up(node, NULL))
            set |= 1U << topology_node_number(node);
    return set;
}

static bool is_awaited(const struct round *round)
{
    for (size_t i = 0; i < round->nodes; i++)
        if (round->replies[i].state == ROUND_ASKED)
            return true;
    return false;
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct round_ask *ask = arg;
    struct round *round = ask->round;
    size_t node = ask->node;

    /* The server did not know the first script, which is sent once more. */
    ask->has_overtaken = ask->awaits_first;
    if (ask->awaits_first)
        return;
    pool_give(ask->pool, ask);
    if (round == NULL)
        return;
    struct round_reply *reply = &round->replies[node];
    round->asks[node] = NULL;
    switch (result->outcome) {
    case REDIS_DONE:
        reply->state = ROUND_REPLIED;
        reply->value = value_take(result->reply);
        break;
    case REDIS_REFUSED:
        reply->state = ROUND_REFUSED;
        reply->refusal = result->refusal;
        break;
    case REDIS_UNKNOWN:
        reply->state = ROUND_UNKNOWN;
        break;
    }
    round->is_over |= !is_awaited(round);
    round->changed(round->arg);
}

/* The reply to a script that goes before that of the round. */
static void on_first(void *arg, const struct redis_result *result)
{
    struct round_ask *ask = arg;

    (void)result; /* the second script finds out */
    ask->awaits_first = false;
    if (!ask->has_overtaken)
        return;
    if (ask->round == NULL)
        pool_give(ask->pool, ask);
    else
        topology_node_script(ask->round->topology, ask->topology_node, &ask->round->behind,
                             on_reply, ask);
}

static void on_time(void *arg)
{
    struct round *round = arg;

    round->is_over = true;
    round->changed(round->arg);
}

void round_init_pool(struct pool *pool)
{
    pool_init(pool, sizeof(struct round_ask));
}

void round_init(struct round *round, struct topology *topology, struct loop *loop,
                struct pool *pool, void (*changed)(void *arg), void *arg)
{
    *round = (struct round){.loop = loop,
                            .topology = topology,
                            .pool = pool,
                            .nodes = topology_quorum_nodes(topology),
                            .timer = {.fire = on_time, .arg = round},
                            .changed = changed,
                            .arg = arg};
    assert(round->nodes > 0 && round->nodes <= ROUND_NODES_MAX);
}

static void forget(struct round *round)
{
    for (size_t i = 0; i < round->nodes; i++) {
        if (round->asks[i] != NULL)
            round->asks[i]->round = NULL;
        round->asks[i] = NULL;
        value_free(round->replies[i].value);
        round->replies[i] = (struct round_reply){.state = ROUND_NOT_ASKED};
    }
}

void round_release(struct round *round)
{
    timer_cancel(loop_timers(round->loop), &round->timer);
    forget(round);
}

/* Sends the question of a round to one server; `question`: a script call, two of them, or a
 * command. */
typedef void send_question(struct topology *topology, struct topology_node *node,
                           const void *question, struct round_ask *ask);

static void send_script(struct topology *topology, struct topology_node *node,
                        const void *question, struct round_ask *ask)
{
    topology_node_script(topology, node, question, on_reply, ask);
}

static void send_behind(struct topology *topology, struct topology_node *node,
                        const void *question, struct round_ask *ask)
{
    const struct script_call *scripts = question;

    ask->awaits_first = true;
    topology_node_script(topology, node, &scripts[0], on_first, ask);
    topology_node_script(topology, node, &scripts[1], on_reply, ask);
}

static void send_command(struct topology *topology, struct topology_node *node,
                         const void *question, struct round_ask *ask)
{
    topology_node_command(topology, node, question, on_reply, ask);
}

/* Where nobody can be asked the round is over at once, that is in the next turn. */
static void begin(struct round *round, send_question *send, const void *question, node_set to)
{
    struct topology *topology = round->topology;
    int64_t now_ns = clock_ns();

    round_release(round);
    round->sent_ns = now_ns;
    round->is_over = false;
    for (struct topology_node *node = topology_next_node(topology, NULL); node != NULL;
         node = topology_next_node(topology, node)) {
        size_t number = topology_node_number(node);
        if (!node_is_in(to, number) || !topology_node_is_up(node, NULL))
            continue;
        struct round_ask *ask = pool_take(round->pool);
        assert(ask != NULL);
        *ask = (struct round_ask){
            .round = round, .pool = round->pool, .topology_node = node, .node = number};
        round->asks[number] = ask;
        round->replies[number].state = ROUND_ASKED;
        send(topology, node, question, ask);
    }
    timer_arm(loop_timers(round->loop), &round->timer,
              is_awaited(round) ? round->sent_ns + ROUND_NS : 0);
}

void round_begin(struct round *round, const struct script_call *call, node_set to)
{
    struct script_call script = *call;
    char room[SHARED_SIZE];

    topology_share_script(&script, room, sizeof(room));
    begin(round, send_script, &script, to);
}

void round_begin_behind(struct round *round, const struct script_call *first,
                        const struct script_call *call, node_set to)
{
    struct script_call scripts[] = {*first, *call};
    char rooms[2][SHARED_SIZE];

    round->behind = *call;
    for (size_t i = 0; i < 2; i++)
        topology_share_script(&scripts[i], rooms[i], sizeof(rooms[i]));
    begin(round, send_behind, scripts, to);
}

void round_begin_command(struct round *round, const struct redis_command *command, node_set to)
{
    begin(round, send_command, command, to);
}

node_set round_touched(const struct round *round)
{
    node_set set = 0;

    for (size_t i = 0; i < round->nodes; i++) {
        enum round_state state = round->replies[i].state;
        if (state != ROUND_NOT_ASKED && state != ROUND_REFUSED)
            set |= 1U << i;
    }
    return set;
}
