/* One call: its arguments, the words of its replies, its end. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/quorum/calls_internal.h"

static void on_changed(void *arg)
{
    struct quorum_call *call = arg;

    call->decide(call);
}

struct quorum_call *quorum_call_new(struct quorum_calls *calls, enum script script,
                                    const struct script_args *args, redis_done *done, void *arg)
{
    struct quorum_call *call = pool_take(&calls->pool);

    assert(call != NULL);
    memset(call, 0, offsetof(struct quorum_call, room));
    call->calls = calls;
    call->script = script;
    if (args != NULL)
        call->args = args_size(args) <= sizeof(call->room) ? args_copy_to(call->room, args)
                                                           : args_copy(args);
    call->done = done;
    call->arg = arg;
    call->ask = (struct quorum_ask){.nodes = calls->nodes, .number = 1, .last = 1};
    round_init(&call->round, calls->options.topology, calls->options.loop, &calls->asks,
               on_changed, call);
    DL_APPEND(calls->live, call);
    return call;
}

size_t quorum_clocks_us(const struct quorum_calls *calls, int64_t clocks_us[QUORUM_NODES_MAX])
{
    const struct quorum_calls_options *options = &calls->options;
    size_t count = 0;

    for (struct topology_node *node = topology_next_node(options->topology, NULL); node != NULL;
         node = topology_next_node(options->topology, node)) {
        int64_t clock_us = options->clock_us(options->arg, node);
        if (clock_us > 0)
            clocks_us[count++] = clock_us;
    }
    if (count == 0) { /* each server compares it with its own clock */
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        clocks_us[count++] = now.tv_sec * INT64_C(1000000) + now.tv_nsec / CLOCK_NS_PER_US;
    }
    return count;
}

int64_t quorum_clock_ms(const struct quorum_calls *calls)
{
    int64_t clocks_us[QUORUM_NODES_MAX];
    size_t count = quorum_clocks_us(calls, clocks_us);

    return quorum_median(clocks_us, count) / 1000;
}

int64_t quorum_propose(const struct quorum_call *call)
{
    int64_t clocks_us[QUORUM_NODES_MAX];
    size_t count = quorum_clocks_us(call->calls, clocks_us);

    return quorum_proposal(clocks_us, count, call->last_token);
}

int64_t quorum_ahead_ms(const struct quorum_calls *calls, size_t number)
{
    const struct quorum_calls_options *options = &calls->options;
    int64_t clocks_us[QUORUM_NODES_MAX];
    size_t count = quorum_clocks_us(calls, clocks_us);

    for (struct topology_node *node = topology_next_node(options->topology, NULL); node != NULL;
         node = topology_next_node(options->topology, node)) {
        int64_t clock_us = options->clock_us(options->arg, node);
        if (topology_node_number(node) == number && clock_us > 0)
            return (clock_us - quorum_median(clocks_us, count)) / 1000;
    }
    return 0;
}

/* --- asking ------------------------------------------------------------------------------- */

node_set quorum_call_all(const struct quorum_call *call)
{
    return (1U << call->calls->nodes) - 1;
}

static void ask(struct quorum_call *call, enum script script, const struct script_args *args,
                node_set to, call_decide *decide)
{
    const struct script_call made = script_call_make(script, args);

    call->decide = decide;
    if (script == SCRIPT_VOTE && call->bind != NULL) {
        const struct script_call bind = script_call_make(SCRIPT_SESSION_BIND, call->bind);
        round_begin_behind(&call->round, &bind, &made, to);
    } else {
        round_begin(&call->round, &made, to);
    }
    call->ask.sent_ms = call->round.sent_ns / CLOCK_NS_PER_MS;
}

void quorum_call_ask(struct quorum_call *call, enum script script,
                     const struct script_args *args, call_decide *decide)
{
    node_set connected = nodes_connected(call->calls->options.topology);
    bool is_possible = (unsigned)__builtin_popcount(connected) >=
                       quorum_majority(call->calls->nodes);

    ask(call, script, args, is_possible ? connected : 0, decide);
}

void quorum_call_ask_any(struct quorum_call *call, enum script script,
                         const struct script_args *args, call_decide *decide)
{
    ask(call, script, args, quorum_call_all(call), decide);
}

void quorum_call_ask_of(struct quorum_call *call, enum script script,
                        const struct script_args *args, node_set to, call_decide *decide)
{
    call->was_sent = true;
    round_release(&call->round);
    ask(call, script, args, to, decide);
}

void quorum_call_later(struct quorum_call *call, call_decide *decide)
{
    const struct redis_command nothing = {.argc = 0};

    call->decide = decide;
    round_begin_command(&call->round, &nothing, 0);
}

void quorum_call_reckon(struct quorum_call *call, int64_t ttl_ms)
{
    call->ask.ttl_ms = ttl_ms;
    call->ask.drift_ms = quorum_drift_ms(ttl_ms);
}

const char *quorum_arg(const struct quorum_call *call, size_t at)
{
    return at < call->args->count ? call->args->args[at].text : "";
}

int64_t quorum_arg_ms(const struct quorum_call *call, size_t at)
{
    return strtoll(quorum_arg(call, at), NULL, 10);
}

const char *quorum_line(const char *text, size_t number, size_t *len)
{
    while (number-- > 0) {
        const char *newline = strchr(text, '\n');
        if (newline == NULL)
            break;
        text = newline + 1;
    }
    *len = strcspn(text, "\n");
    return text;
}

const char *quorum_record_line(const struct quorum_call *call, size_t number, size_t *len)
{
    return quorum_line(quorum_arg(call, ACQUIRE_ARG_RECORD_TEXT), number, len);
}

/* --- replies ------------------------------------------------------------------------------ */

static struct node_reply read_word(const struct redis_value *value,
                                   const struct call_word *words, size_t count)
{
    size_t len;
    const struct redis_value *first = value_count(value) > 0 ? value_at(value, 0) : value;
    bool is_number = value_is_integer(first);
    const char *text = is_number ? CALL_WORD_NUMBER : value_text(first, &len);

    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i].text, text) == 0) {
            const struct redis_value *own = is_number ? first
                                                      : value_at(value, words[i].value_at);
            bool has_value = is_number || words[i].value_at > 0;
            return (struct node_reply){.word = words[i].word,
                                       .value = has_value ? value_integer(own) : 0};
        }
    return (struct node_reply){.word = NODE_SILENT};
}

/* The replies of a server of whose data it is not known since when the server has them count
 * for nothing. */
void quorum_call_words(const struct quorum_call *call, const struct call_word *words,
                       size_t count, struct node_reply replies[QUORUM_NODES_MAX])
{
    const struct quorum_calls_options *options = &call->calls->options;

    for (struct topology_node *node = topology_next_node(options->topology, NULL); node != NULL;
         node = topology_next_node(options->topology, node)) {
        size_t number = topology_node_number(node);
        const struct round_reply *reply = &call->round.replies[number];
        replies[number] = (struct node_reply){.word = NODE_SILENT};
        if (reply->state == ROUND_REPLIED && options->is_marked(options->arg, node))
            replies[number] = read_word(reply->value, words, count);
        else if (reply->state == ROUND_REFUSED && reply->refusal == REDIS_REFUSED_WRONG_TYPE &&
                 options->is_marked(options->arg, node))
            replies[number].word = NODE_REFUSED;
    }
}

void quorum_call_count(const struct quorum_call *call, enum round_operation operation,
                       enum conclusion_word word)
{
    quorum_counts_round(call->calls->options.metrics->quorum, operation, word);
}

struct conclusion quorum_conclude(const struct quorum_call *call, conclude *how,
                                  const struct node_reply *replies)
{
    return how(&call->ask, replies, clock_ns() / CLOCK_NS_PER_MS, call->round.is_over);
}

struct conclusion quorum_call_conclude(const struct quorum_call *call,
                                       enum round_operation operation, conclude *how,
                                       const struct node_reply *replies)
{
    const struct conclusion found = quorum_conclude(call, how, replies);

    if (found.word != CONCLUDE_WAIT)
        quorum_call_count(call, operation, found.word);
    return found;
}

size_t quorum_call_find(const struct quorum_call *call, const struct node_reply *replies,
                        enum node_word word, int64_t value)
{
    size_t nodes = call->calls->nodes;

    for (size_t i = 0; i < nodes; i++)
        if (replies[i].word == word && (value < 0 || replies[i].value == value))
            return i;
    return nodes;
}

/* --- the end ------------------------------------------------------------------------------ */

void quorum_call_free(struct quorum_call *call)
{
    struct quorum_calls *calls = call->calls;

    timer_cancel(loop_timers(calls->options.loop), &call->pause);
    DL_DELETE(calls->live, call);
    round_release(&call->round);
    value_free(call->kept);
    if ((char *)call->args != call->room)
        free(call->args);
    free(call->bind);
    free(call->made);
    pool_give(&calls->pool, call);
}

static node_set unconfirmed(const struct quorum_call *call)
{
    node_set set = 0;

    for (size_t i = 0; i < call->calls->nodes; i++)
        if (call->round.replies[i].state != ROUND_REPLIED)
            set |= 1U << i;
    return set;
}

int64_t quorum_memory_ms(int64_t window_ms)
{
    return window_ms - quorum_drift_ms(window_ms);
}

/* The client has its answer: now the servers that are slower, or away. */
static void follow_up(struct quorum_call *call)
{
    int64_t passed_ms = (loop_now_ns(call->calls->options.loop) - call->round.sent_ns) /
                        CLOCK_NS_PER_MS;

    if (!call->round.is_over)
        return;
    quorum_call_repeat(call, call->tail_script, call->tail, unconfirmed(call),
                       call->tail_ms - passed_ms);
    quorum_call_free(call);
}

/* The lease lasts for a drift less than the servers say, so the time at which the servers were
 * asked counts as earlier. */
static void finish(struct quorum_call *call, enum redis_outcome outcome,
                   enum redis_refusal refusal, struct redis_value *value)
{
    static const struct redis_server nobody;
    const struct redis_result result = {.outcome = outcome,
                                        .refusal = refusal,
                                        .reply = value,
                                        .sent_ns = call->round.sent_ns -
                                                   call->ask.drift_ms * CLOCK_NS_PER_MS,
                                        .server = &nobody};

    const struct quorum_call *before = call->calls->ending;
    call->calls->ending = call;
    call->done(call->arg, &result);
    call->calls->ending = before;
    value_free(value);
    call->done = NULL;
    call->decide = call->after;
    if (call->after != NULL)
        call->after(call);
    else
        quorum_call_free(call);
}

void quorum_call_end(struct quorum_call *call)
{
    if (call->done == NULL)
        quorum_call_free(call);
    else
        quorum_call_fail(call);
}

void quorum_call_answer(struct quorum_call *call, struct redis_value *value)
{
    finish(call, REDIS_DONE, REDIS_NOT_REFUSED, value);
}

void quorum_call_answer_reply(struct quorum_call *call, size_t node)
{
    if (node >= call->calls->nodes) {
        quorum_call_fail(call);
        return;
    }
    struct redis_value *value = call->round.replies[node].value;

    call->round.replies[node].value = NULL;
    quorum_call_answer(call, value);
}

void quorum_call_answer_kept(struct quorum_call *call)
{
    struct redis_value *kept = call->kept;

    call->kept = NULL;
    quorum_call_answer(call, kept);
}

void quorum_call_refuse(struct quorum_call *call, enum redis_refusal refusal)
{
    finish(call, REDIS_REFUSED, refusal, NULL);
}

/* Why the servers refused: memory, above all. */
static enum redis_refusal refusal_of(const struct quorum_call *call)
{
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (call->round.replies[i].state == ROUND_REFUSED)
            return call->round.replies[i].refusal;
    return REDIS_REFUSED_UNAVAILABLE;
}

void quorum_call_fail(struct quorum_call *call)
{
    if (call->was_sent || round_touched(&call->round) != 0)
        finish(call, REDIS_UNKNOWN, REDIS_NOT_REFUSED, NULL);
    else
        quorum_call_refuse(call, refusal_of(call));
}

/* --- in the background -------------------------------------------------------------------- */

void quorum_call_repeat(struct quorum_call *call, enum script script,
                        const struct script_args *args, node_set to, int64_t ttl_ms)
{
    if (to != 0 && ttl_ms > 0)
        repeat_start(call->calls->repeats, script, args_copy(args), to, ttl_ms);
}

void quorum_call_insist(struct quorum_call *call, enum script script,
                        const struct script_args *args, int64_t ttl_ms)
{
    call->after = follow_up;
    call->tail_script = script;
    call->tail = args;
    call->tail_ms = ttl_ms;
}

static void ignore(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result; /* the next visit or renewal finds out */
}

struct quorum_call *quorum_call_inside(const struct quorum_call *call, enum script script,
                                       const struct script_args *args)
{
    return quorum_call_new(call->calls, script, args, ignore, NULL);
}

static void decide_mended(struct quorum_call *call)
{
    if (!call->round.is_over)
        return;
    for (size_t i = 0; i < call->calls->nodes; i++)
        if (call->round.replies[i].state == ROUND_REPLIED &&
            value_integer(call->round.replies[i].value) == 1)
            metrics_add(call->calls->options.metrics, METRIC_QUORUM_REPAIRS, 1);
    quorum_call_answer(call, value_make_integer(0));
}

void quorum_call_mend(struct quorum_call *call, size_t node)
{
    const struct script_call script = script_call_make(call->script, call->args);

    call->decide = decide_mended;
    if (call->bind == NULL) {
        round_begin(&call->round, &script, 1U << node);
        return;
    }
    const struct script_call bind = script_call_make(SCRIPT_SESSION_BIND, call->bind);
    round_begin_behind(&call->round, &bind, &script, 1U << node);
}

struct script_args *quorum_call_make_args(struct quorum_call *call)
{
    if (call->made == NULL)
        call->made = malloc(sizeof(*call->made));
    assert(call->made != NULL);
    args_init(call->made);
    return call->made;
}
