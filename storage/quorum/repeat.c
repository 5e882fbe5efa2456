/* The scripts that some server has not confirmed yet. */
#include "storage/quorum/repeat.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "server/base/clock.h"

/* While a server is away the scripts for it gather, some 4 KiB each. Beyond REPEATS_MAX the
 * oldest is dropped: what it was to remove ends by its time, and no answer relied on it. When
 * the server is back, so many at a time that its connection stays quick, and as many again when
 * half of them are confirmed. A server that refuses one gets no more until the pause is over.
 */
enum { REPEATS_MAX = 5000, IN_FLIGHT_MAX = 256 };

struct repeat {
    struct repeat *prev, *next;
    struct repeat_line *line;
    enum script script;
    struct script_args *args;
    node_set left, in_flight;
    bool is_dropped;
    int64_t expires_ns;
};

struct repeat_line {
    struct topology *topology;
    struct loop *loop;
    struct repeat *first;
    size_t count;
    struct repeat_server {
        size_t in_flight;
        bool rests;
    } servers[TOPOLOGY_QUORUM_MAX];
    struct timer retry; /* after the pause */
    struct timer more;  /* where there is room */
};

/* One script under way to one server. */
struct repeat_call {
    struct repeat *repeat;
    size_t node;
};

static void free_repeat(struct repeat *repeat)
{
    free(repeat->args);
    free(repeat);
}

/* A call under way still points to it. */
static void drop(struct repeat *repeat)
{
    if (repeat->is_dropped)
        return;
    repeat->is_dropped = true;
    DL_DELETE(repeat->line->first, repeat);
    repeat->line->count--;
}

static void settle(struct repeat *repeat)
{
    if (repeat->left == 0)
        drop(repeat);
    if (repeat->is_dropped && repeat->in_flight == 0)
        free_repeat(repeat);
}

static void rest(struct repeat_line *line)
{
    if (!timer_is_armed(&line->retry))
        timer_arm(loop_timers(line->loop), &line->retry,
                  loop_now_ns(line->loop) + REDIS_ASK_AGAIN_NS);
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct repeat_call *call = arg;
    struct repeat *repeat = call->repeat;
    struct repeat_line *line = repeat->line;
    struct repeat_server *server = &line->servers[call->node];
    node_set node = 1U << call->node;

    free(call);
    repeat->in_flight &= ~node;
    server->in_flight--;
    if (result->outcome == REDIS_DONE || result->refusal == REDIS_REFUSED_WRONG_TYPE) {
        repeat->left &= ~node;
    } else {
        server->rests = true;
        rest(line);
    }
    settle(repeat);
    if (server->in_flight == IN_FLIGHT_MAX / 2 && !server->rests)
        timer_arm(loop_timers(line->loop), &line->more, loop_now_ns(line->loop));
}

static void send(struct repeat *repeat)
{
    struct repeat_line *line = repeat->line;
    struct topology *topology = line->topology;
    struct script_call script = script_call_make(repeat->script, repeat->args);

    /* The next keep-alive is not to read what this one removes. */
    script.is_in_order = repeat->script == SCRIPT_SESSION_TOLD;
    for (struct topology_node *node = topology_next_node(topology, NULL); node != NULL;
         node = topology_next_node(topology, node)) {
        size_t number = topology_node_number(node);
        if (!node_is_in(repeat->left & ~repeat->in_flight, number) ||
            !topology_node_is_up(node, NULL) || line->servers[number].rests ||
            line->servers[number].in_flight >= IN_FLIGHT_MAX)
            continue;
        line->servers[number].in_flight++;
        struct repeat_call *call = malloc(sizeof(*call));
        assert(call != NULL);
        *call = (struct repeat_call){.repeat = repeat, .node = number};
        repeat->in_flight |= 1U << number;
        topology_node_script(topology, node, &script, on_reply, call);
    }
}

static void send_all(void *arg)
{
    struct repeat_line *line = arg;
    struct repeat *repeat, *next;
    int64_t now_ns = loop_now_ns(line->loop);

    DL_FOREACH_SAFE(line->first, repeat, next) {
        if (repeat->expires_ns >= now_ns) {
            send(repeat);
            continue;
        }
        repeat->left = 0;
        settle(repeat);
    }
}

static void retry(void *arg)
{
    struct repeat_line *line = arg;

    for (size_t i = 0; i < TOPOLOGY_QUORUM_MAX; i++)
        line->servers[i].rests = false;
    send_all(line);
    if (line->first != NULL)
        rest(line);
}

void repeat_go_on(struct repeat_line *line)
{
    retry(line);
}

void repeat_start(struct repeat_line *line, enum script script, struct script_args *args,
                  node_set to, int64_t ttl_ms)
{
    struct repeat *repeat = calloc(1, sizeof(*repeat));

    assert(repeat != NULL);
    *repeat = (struct repeat){.line = line,
                              .script = script,
                              .args = args,
                              .left = to,
                              .expires_ns = loop_now_ns(line->loop) + ttl_ms * CLOCK_NS_PER_MS};
    DL_APPEND(line->first, repeat);
    if (++line->count > REPEATS_MAX) {
        struct repeat *oldest = line->first;
        oldest->left = 0;
        settle(oldest);
    }
    send(repeat);
    rest(line);
}

size_t repeat_pending(const struct repeat_line *line)
{
    const struct repeat *repeat;
    size_t count = 0;

    DL_FOREACH(line->first, repeat) {
        count += repeat->in_flight != 0;
    }
    return count;
}

struct repeat_line *repeat_line_new(struct topology *topology, struct loop *loop)
{
    struct repeat_line *line = calloc(1, sizeof(*line));

    if (line == NULL)
        return NULL;
    line->topology = topology;
    line->loop = loop;
    line->retry = (struct timer){.fire = retry, .arg = line};
    line->more = (struct timer){.fire = send_all, .arg = line};
    return line;
}

void repeat_line_free(struct repeat_line *line)
{
    struct repeat *repeat, *next;

    timer_cancel(loop_timers(line->loop), &line->retry);
    timer_cancel(loop_timers(line->loop), &line->more);
    DL_FOREACH_SAFE(line->first, repeat, next) {
        assert(repeat->in_flight == 0);
        repeat->left = 0;
        settle(repeat);
    }
    free(line);
}
