/* A Redis that answers whatever the input says: topology.h and a loop that stands still, made
 * up. Include the header once a program. */
#ifndef RLOCKD_TESTS_FUZZ_REPLIES_H
#define RLOCKD_TESTS_FUZZ_REPLIES_H

#include <hiredis/hiredis.h>

#include "server/base/clock.h"
#include "server/base/timers.h"
#include "storage/topology/topology.h"
#include "tests/fuzz/fuzz.h"

enum { PENDING_MAX = 256, ANSWERS_MAX = 400, DEPTH_MAX = 4, ELEMENTS_MAX = 20 };

struct loop {
    struct timers timers;
    int64_t now_ns;
};

struct pending_call {
    redis_done *done;
    void *arg;
};

struct topology {
    struct fuzz_input *input;
    struct pending_call pending[PENDING_MAX];
    size_t first, count, answers;
};

static struct loop loop;
static struct topology topology;
static const struct redis_server server = {.run_id = "0123456789abcdef", .up_since_ns = 1};

/* --- replies ------------------------------------------------------------------------------ */

/* Words and texts that some reader looks for. */
static const char *const words[] = {
    "granted",
    "waits",
    "noted",
    "1763800000000 1 0 lock 6ba7b810-9dad-51d1-80b4-00c04fd430c8:0 orders\n",
    "held",
    "busy",
    "released",
    "ended",
    "reused",
    "wrong-kind",
    "upgrade",
    "too-many",
    "unknown",
    "waiting",
    "gone",
    "lost",
    "open",
    "idle",
    "opened",
    "expired",
    "forced",
    "session-ended",
    "wait-too-long",
    "full",
    "ends",
    "created",
    "exists",
    "deleted",
    "missing",
    "looked",
    "read",
    "write",
    "lock",
    "fair",
    "permit",
    "free",
    "stale",
    "unlocked",
    "spent",
    "kept",
    "known",
    "acquired",
    "drained",
    "replayed",
    "1",
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "1763800000000000",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8:0",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8:0:write",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8 orders",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8 \norders\nstock",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8:owner",
    "\norders\nstock",
    "expired\nlock",
    "1763800000000 abcd.1 abcd.2",
    "held\n\nabcd.1\n\n30000\nnote\n6ba7b810-9dad-51d1-80b4-00c04fd430c8\nname\n7\n1\nlock\n",
    "waiting\nshared\nabcd.1\n1763800000000\n500\n\n\n\n\n\nfair\n",
    "held\n\n\n\n500\n\n6ba7b810-9dad-51d1-80b4-00c04fd430c8\n\n7\n1\nread\nowner",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8:owner\nlock\nname",
};

static redisReply *make_value(struct fuzz_input *input, int depth);

static redisReply *new_value(int type)
{
    redisReply *value = calloc(1, sizeof(*value));

    CHECK(value != NULL);
    value->type = type;
    return value;
}

static redisReply *make_text(int type, char *text, size_t len)
{
    redisReply *value = new_value(type);

    value->str = text;
    value->len = len;
    return value;
}

static redisReply *make_word(const char *word)
{
    size_t len = strlen(word);
    char *copy = malloc(len + 1);

    CHECK(copy != NULL);
    memcpy(copy, word, len + 1);
    return make_text(REDIS_REPLY_STRING, copy, len);
}

static redisReply *make_bytes(struct fuzz_input *input, int type)
{
    size_t len = fuzz_byte(input);

    if (len > input->size)
        len = input->size;
    return make_text(type, fuzz_take(input, len), len);
}

static redisReply *make_integer(struct fuzz_input *input)
{
    redisReply *value = new_value(REDIS_REPLY_INTEGER);
    uint8_t how = fuzz_byte(input);

    value->integer = (int8_t)how;
    if (how == 0x7F || how == 0x80) {
        uint64_t number = 0;
        for (int i = 0; i < 8; i++)
            number = number << 8 | fuzz_byte(input);
        value->integer = (int64_t)number;
    }
    return value;
}

static redisReply *make_array(struct fuzz_input *input, int depth)
{
    redisReply *value = new_value(REDIS_REPLY_ARRAY);

    value->elements = fuzz_byte(input) % (ELEMENTS_MAX + 1);
    value->element = calloc(value->elements + 1, sizeof(*value->element));
    CHECK(value->element != NULL);
    for (size_t i = 0; i < value->elements; i++)
        value->element[i] = make_value(input, depth + 1);
    return value;
}

static redisReply *make_value(struct fuzz_input *input, int depth)
{
    uint8_t how = fuzz_byte(input);

    if (how >= 0x40 && how < 0xC0)
        return make_word(words[(how - 0x40U) % (sizeof(words) / sizeof(words[0]))]);
    switch (how & 7) {
    case 0:
        return new_value(REDIS_REPLY_NIL);
    case 1:
    case 2:
        return make_integer(input);
    case 3:
        return make_bytes(input, REDIS_REPLY_STRING);
    case 4:
        return make_bytes(input, REDIS_REPLY_STATUS);
    case 5:
        return make_bytes(input, REDIS_REPLY_ERROR);
    default:
        return depth < DEPTH_MAX ? make_array(input, depth) : make_integer(input);
    }
}

/* --- answers ------------------------------------------------------------------------------ */

/* A Redis that has said enough knows nothing any more: everything comes to its end. */
static void answer(struct pending_call *call)
{
    static const enum redis_refusal refusals[] = {
        REDIS_REFUSED_UNAVAILABLE, REDIS_REFUSED_OUT_OF_MEMORY, REDIS_REFUSED_WRONG_TYPE,
        REDIS_REFUSED_PERMISSION};
    struct fuzz_input *input = topology.input;
    bool is_over = input->size == 0 || ++topology.answers > ANSWERS_MAX;
    uint8_t how = is_over ? 0xFF : fuzz_byte(input);
    struct redis_result result = {.sent_ns = loop.now_ns - (how & 3) * CLOCK_NS_PER_S,
                                  .server = &server};

    if (is_over) {
        result.outcome = REDIS_REFUSED;
        result.refusal = REDIS_REFUSED_WRONG_TYPE;
    } else if (how >= 0xF8) {
        result.outcome = REDIS_UNKNOWN;
    } else if (how >= 0xF0) {
        result.outcome = REDIS_REFUSED;
        result.refusal = refusals[how & 3];
    } else {
        result.outcome = REDIS_DONE;
        result.reply = (const struct redis_value *)make_value(input, 0);
    }
    call->done(call->arg, &result);
    freeReplyObject((redisReply *)result.reply);
}

static void answer_all(void)
{
    while (topology.count > 0) {
        struct pending_call call = topology.pending[topology.first];
        topology.first = (topology.first + 1) % PENDING_MAX;
        topology.count--;
        answer(&call);
    }
}

static void expect_answer(redis_done *done, void *arg)
{
    CHECK(topology.count < PENDING_MAX);
    topology.pending[(topology.first + topology.count++) % PENDING_MAX] = (struct pending_call){
        .done = done, .arg = arg};
}

/* --- the loop and the topology ------------------------------------------------------------ */

struct timers *loop_timers(struct loop *asked)
{
    return &asked->timers;
}

int64_t loop_now_ns(const struct loop *asked)
{
    return asked->now_ns;
}

void topology_script(struct topology *asked, const struct script_call *call, redis_done *done,
                     void *arg)
{
    (void)asked;
    for (size_t i = 0; i < call->args->key_count; i++)
        CHECK(call->args->keys[i].text != NULL && call->args->keys[i].len > 0);
    expect_answer(done, arg);
}

void topology_command(struct topology *asked, const struct redis_tag *tag,
                      const struct redis_command *command, redis_done *done, void *arg)
{
    (void)asked;
    (void)tag;
    CHECK(command->argc > 0);
    expect_answer(done, arg);
}

struct topology_node *topology_next_node(struct topology *asked, struct topology_node *node)
{
    return node == NULL ? (struct topology_node *)asked : NULL;
}

struct topology_node *topology_node_of(struct topology *asked, const struct redis_tag *tag)
{
    (void)tag;
    return (struct topology_node *)asked;
}

uint16_t topology_slot_at(const struct topology *asked, const struct topology_node *node)
{
    (void)asked;
    (void)node;
    return TOPOLOGY_ALL_SLOTS;
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
    (void)node;
    topology_command(asked, NULL, command, done, arg);
}

void topology_node_script(struct topology *asked, struct topology_node *node,
                          const struct script_call *call, redis_done *done, void *arg)
{
    (void)node;
    topology_script(asked, call, done, arg);
}

const struct redis_server *topology_node_server(const struct topology_node *node)
{
    (void)node;
    return &server;
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

/* It is no quorum. */
size_t topology_quorum_nodes(const struct topology *asked)
{
    (void)asked;
    return 0;
}

void topology_set_runner(struct topology *asked, const struct topology_runner *runner)
{
    (void)asked;
    (void)runner;
    CHECK(false);
}

size_t topology_node_number(const struct topology_node *node)
{
    (void)node;
    return 0;
}

void topology_node_address(const struct topology_node *node, char *text, size_t size)
{
    (void)node;
    snprintf(text, size, "localhost:6379");
}

bool topology_node_is_up(const struct topology_node *node, const char **why_not)
{
    (void)node;
    (void)why_not;
    return true;
}

#endif
