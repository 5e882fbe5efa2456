/* A Redis that answers whatever the input says, or the servers of a quorum, each of which does:
 * topology.h and a loop that stands still, made up. Include the header once a program. */
#ifndef RLOCKD_TESTS_FUZZ_REPLIES_H
#define RLOCKD_TESTS_FUZZ_REPLIES_H

#include <hiredis/hiredis.h>

#include "server/base/clock.h"
#include "server/base/timers.h"
#include "storage/topology/topology.h"
#include "tests/fuzz/values.h"
#include "tests/lib/fake_loop.h"

enum { PENDING_MAX = 2048, ANSWERS_MAX = 400, DELAYS_MAX = 2 };

struct topology_node {
    size_t number;
    struct redis_server server;
};

struct pending_call {
    redis_done *done;
    void *arg;
    const struct topology_node *node;
    struct script_args *args; /* of a script of a quorum; else NULL */
    bool is_marker;           /* of a quorum: that script is answered as Redis does */
    int64_t at_ns;            /* not answered before */
    int delays;
};

struct topology {
    struct fuzz_input *input;
    struct pending_call pending[PENDING_MAX];
    size_t first, count, answers;
    /* Of a quorum; 0: it is none. The sets are bits of nodes: those that cannot be reached,
     * those in quarantine, and those that have said what they have since the bits were cleared.
     */
    size_t nodes;
    unsigned down, young, has_replied;
    struct topology_runner runner;
    struct fuzz_input last; /* where the last reply begins */
    bool is_stopped;
};

static struct topology topology;
static struct topology_node nodes[TOPOLOGY_QUORUM_MAX];

/* --- answers ------------------------------------------------------------------------------ */

static redisReply *make_number(int64_t number)
{
    redisReply *value = new_value(REDIS_REPLY_INTEGER);

    value->integer = number;
    return value;
}

/* Of marker.lua: since when the process serves, when its data were kept last, its clock. */
static redisReply *make_marker(const struct topology_node *node)
{
    redisReply *value = new_value(REDIS_REPLY_ARRAY);
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    value->elements = 4;
    value->element = calloc(value->elements, sizeof(*value->element));
    CHECK(value->element != NULL);
    value->element[0] = make_number(topology.young >> node->number & 1 ? now_ms : 1);
    value->element[1] = make_number(1);
    value->element[2] = make_number(now_ms);
    value->element[3] = make_word("");
    return value;
}

/* Of a quorum a reply may be that of the last server. */
static redisReply *make_reply(const struct pending_call *call, uint8_t how)
{
    struct fuzz_input again = topology.last;
    redisReply *reply;

    if (call->is_marker)
        return make_marker(call->node);
    echoed = call->args;
    if (topology.nodes > 0 && how >= 0xC0 && how < 0xE0) {
        reply = make_value(&again, 0);
    } else {
        topology.last = *topology.input;
        reply = make_value(topology.input, 0);
    }
    echoed = NULL;
    return reply;
}

/* How a call of a marker ends is no matter of the input. */
static uint8_t choose_how(const struct pending_call *call, bool is_over)
{
    if (call->is_marker)
        return 0;
    return is_over ? 0xFF : fuzz_byte(topology.input);
}

/* A Redis that has said enough knows nothing any more: everything comes to its end. */
static void answer(struct pending_call *call)
{
    static const enum redis_refusal refusals[] = {
        REDIS_REFUSED_UNAVAILABLE, REDIS_REFUSED_OUT_OF_MEMORY, REDIS_REFUSED_WRONG_TYPE,
        REDIS_REFUSED_PERMISSION};
    bool is_over = topology.input->size == 0 || ++topology.answers > ANSWERS_MAX;
    uint8_t how = choose_how(call, is_over);
    struct redis_result result = {.sent_ns = loop.now_ns - (how & 3) * CLOCK_NS_PER_S,
                                  .server = &call->node->server};

    if (topology.is_stopped || (how >= 0xF8 && !is_over)) {
        result.outcome = REDIS_UNKNOWN;
    } else if (how == 0xFF) {
        result.outcome = REDIS_REFUSED;
        result.refusal = REDIS_REFUSED_WRONG_TYPE;
    } else if (how >= 0xF0) {
        result.outcome = REDIS_REFUSED;
        result.refusal = refusals[how & 3];
    } else {
        result.outcome = REDIS_DONE;
        result.reply = (const struct redis_value *)make_reply(call, how);
    }
    if (!call->is_marker &&
        (result.outcome == REDIS_DONE ||
         (result.outcome == REDIS_REFUSED && result.refusal == REDIS_REFUSED_WRONG_TYPE)))
        topology.has_replied |= 1U << call->node->number;
    call->done(call->arg, &result);
    freeReplyObject((redisReply *)result.reply);
    free(call->args);
}

static void push(struct pending_call call)
{
    CHECK(topology.count < PENDING_MAX);
    topology.pending[(topology.first + topology.count++) % PENDING_MAX] = call;
}

static struct pending_call pop(void)
{
    struct pending_call call = topology.pending[topology.first];

    topology.first = (topology.first + 1) % PENDING_MAX;
    topology.count--;
    return call;
}

/* Of a quorum a server may take its time, also for longer than a round takes. */
static bool is_delayed(struct pending_call *call)
{
    const struct fuzz_input *input = topology.input;

    if (topology.nodes == 0 || topology.is_stopped)
        return false;
    if (call->at_ns <= loop.now_ns && call->delays < DELAYS_MAX && !call->is_marker &&
        input->size > 0 && *input->data >= 0xE0 && *input->data < 0xF0) {
        call->at_ns = loop.now_ns + (fuzz_byte(topology.input) & 15) * 100 * CLOCK_NS_PER_MS +
                      1;
        call->delays++;
    }
    return call->at_ns > loop.now_ns;
}

static void answer_all(void)
{
    size_t delayed = 0;

    while (topology.count > delayed) {
        struct pending_call call = pop();
        if (is_delayed(&call)) {
            push(call);
            delayed++;
        } else {
            answer(&call);
            delayed = 0;
        }
    }
}

static void expect_answer(const struct topology_node *node, const struct script_call *script,
                          redis_done *done, void *arg)
{
    struct pending_call call = {.done = done, .arg = arg, .node = node};

    if (script != NULL && topology.nodes > 0) {
        call.args = args_copy(script->args);
        call.is_marker = script->script == SCRIPT_MARKER;
    }
    push(call);
}

/* --- the loop and the topology ------------------------------------------------------------ */

/* `quorum`: its servers; 0: one Redis. */
static void topology_init(struct fuzz_input *input, size_t quorum)
{
    memset(&topology, 0, sizeof(topology));
    topology.input = input;
    topology.nodes = quorum;
    if (quorum > 0) {
        topology.down = fuzz_byte(input) & fuzz_byte(input);
        topology.young = fuzz_byte(input) & fuzz_byte(input);
    }
    for (size_t i = 0; i < TOPOLOGY_QUORUM_MAX; i++) {
        nodes[i] = (struct topology_node){.number = i, .server = {.up_since_ns = 1}};
        snprintf(nodes[i].server.run_id, sizeof(nodes[i].server.run_id), "0123456789abcde%zu",
                 i);
    }
}

/* As topology_stop() does: no server replies any more, and the calls end. */
static void topology_end(void)
{
    topology.is_stopped = true;
    answer_all();
    if (topology.runner.stop != NULL)
        topology.runner.stop(topology.runner.arg);
    answer_all();
}

void topology_script(struct topology *asked, const struct script_call *call, redis_done *done,
                     void *arg)
{
    for (size_t i = 0; i < call->args->key_count; i++)
        CHECK(call->args->keys[i].text != NULL && call->args->keys[i].len > 0);
    if (asked->nodes > 0)
        asked->runner.script(asked->runner.arg, call, done, arg);
    else
        expect_answer(&nodes[0], call, done, arg);
}

void topology_command(struct topology *asked, const struct redis_tag *tag,
                      const struct redis_command *command, redis_done *done, void *arg)
{
    (void)tag;
    CHECK(command->argc > 0);
    if (asked->nodes > 0)
        asked->runner.command(asked->runner.arg, command, done, arg);
    else
        expect_answer(&nodes[0], NULL, done, arg);
}

struct topology_node *topology_next_node(struct topology *asked, struct topology_node *node)
{
    size_t next = node == NULL ? 0 : node->number + 1;

    return next < (asked->nodes > 0 ? asked->nodes : 1) ? &nodes[next] : NULL;
}

struct topology_node *topology_node_of(struct topology *asked, const struct redis_tag *tag)
{
    (void)tag;
    return asked->nodes > 0 ? NULL : &nodes[0];
}

uint16_t topology_slot_at(const struct topology *asked, const struct topology_node *node)
{
    return (uint16_t)(TOPOLOGY_ALL_SLOTS + (asked->nodes > 0 ? node->number : 0));
}

void topology_slot_tag(const struct topology *asked, uint16_t slot, char tag[TOPOLOGY_TAG_SIZE])
{
    (void)asked;
    (void)slot;
    tag[0] = '\0';
}

void topology_node_check(struct topology_node *node, const char *reason)
{
    (void)node;
    (void)reason;
}

void topology_node_command(struct topology *asked, struct topology_node *node,
                           const struct redis_command *command, redis_done *done, void *arg)
{
    (void)asked;
    CHECK(command->argc > 0);
    expect_answer(node != NULL ? node : &nodes[0], NULL, done, arg);
}

void topology_node_script(struct topology *asked, struct topology_node *node,
                          const struct script_call *call, redis_done *done, void *arg)
{
    (void)asked;
    for (size_t i = 0; i < call->args->key_count; i++)
        CHECK(call->args->keys[i].text != NULL && call->args->keys[i].len > 0);
    expect_answer(node, call, done, arg);
}

/* Prepares nothing: no script is sent, so its arguments need no form for Redis. */
void topology_share_script(struct script_call *call, char *room, size_t size)
{
    (void)call;
    (void)room;
    (void)size;
}

const struct redis_server *topology_node_server(const struct topology_node *node)
{
    return &node->server;
}

bool topology_is_ready(const struct topology *asked, const char **why_not)
{
    (void)asked;
    if (why_not != NULL)
        *why_not = "";
    return true;
}

bool topology_is_cluster(struct topology *asked)
{
    (void)asked;
    return false;
}

size_t topology_quorum_nodes(const struct topology *asked)
{
    return asked->nodes;
}

void topology_set_runner(struct topology *asked, const struct topology_runner *runner)
{
    CHECK(asked->nodes > 0);
    asked->runner = *runner;
}

size_t topology_node_number(const struct topology_node *node)
{
    return node->number;
}

bool topology_has_majority(struct topology *asked)
{
    (void)asked;
    return true;
}

void topology_node_address(const struct topology_node *node, char *text, size_t size)
{
    (void)node;
    snprintf(text, size, "localhost:6379");
}

bool topology_node_is_up(const struct topology_node *node, const char **why_not)
{
    bool is_up = !topology.is_stopped && (topology.down >> node->number & 1) == 0;

    if (why_not != NULL)
        *why_not = is_up ? "" : "it cannot be reached";
    return is_up;
}

bool topology_node_takes_writes(const struct topology_node *node)
{
    return topology_node_is_up(node, NULL);
}

#endif
