/* Which script of a store goes which way in a quorum. */
#include "storage/quorum/calls.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "storage/quorum/calls_internal.h"

/* A script that is not here is that of an object or a feature that no quorum offers: it is
 * refused before it is sent, and here once more. */
static void (*const ways[SCRIPT_COUNT])(struct quorum_call *call) = {
    [SCRIPT_ACQUIRE] = quorum_acquire,
    [SCRIPT_RW_ACQUIRE] = quorum_acquire,
    [SCRIPT_SET_ACQUIRE] = quorum_acquire,
    [SCRIPT_RENEW] = quorum_renew,
    [SCRIPT_RELEASE] = quorum_release,
    [SCRIPT_WITHDRAW] = quorum_withdraw,
    [SCRIPT_SET_NAMES] = quorum_set_names,
    [SCRIPT_LOOK] = quorum_look,
    [SCRIPT_LEASE_CLAIM] = quorum_claim,
    [SCRIPT_FORCE_UNLOCK] = quorum_force,
    [SCRIPT_LEASE_END] = quorum_end,
    [SCRIPT_GRANT_FIND] = quorum_grant_find,
    [SCRIPT_FORCED_BY] = quorum_forced_by,
    [SCRIPT_SESSION_OPEN] = quorum_session_open,
    [SCRIPT_SESSION_KEEP_ALIVE] = quorum_session_keep_alive,
    [SCRIPT_SESSION_GET] = quorum_session_get,
    [SCRIPT_SESSION_BRIEF] = quorum_session_brief,
    [SCRIPT_SESSION_END] = quorum_session_end,
    [SCRIPT_SESSION_BIND] = quorum_bind,
    [SCRIPT_SESSION_UNBIND] = quorum_unbind,
    [SCRIPT_SESSION_PAGE] = quorum_page,
    [SCRIPT_SESSION_SETTLE] = quorum_settle,
    [SCRIPT_SESSION_DUE] = quorum_due,
    [SCRIPT_INDEX_SET] = quorum_index_set,
    [SCRIPT_INDEX_CLAIM] = quorum_index_claim,
    [SCRIPT_WATCH_MANY] = quorum_watch_many,
    [SCRIPT_LEASE_WATCH] = quorum_watch,
};

static void refuse(struct quorum_call *call)
{
    quorum_call_refuse(call, REDIS_REFUSED_UNAVAILABLE);
}

static void on_script(void *arg, const struct script_call *script, redis_done *done,
                      void *done_arg)
{
    struct quorum_call *call = quorum_call_new(arg, script->script, script->args, done,
                                               done_arg);

    if (ways[script->script] != NULL)
        ways[script->script](call);
    else
        quorum_call_later(call, refuse);
}

/* --- commands: about the names of a set, losses that were told, and the index of sessions - */

/* A text that one server has, and that never changes. */
static void decide_get(struct quorum_call *call)
{
    unsigned replied = 0;
    size_t len;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        if (call->round.replies[i].state != ROUND_REPLIED)
            continue;
        replied++;
        (void)value_text(call->round.replies[i].value, &len);
        if (len > 0) {
            quorum_call_answer_reply(call, i);
            return;
        }
    }
    if (replied >= quorum_majority(call->calls->nodes))
        quorum_call_answer(call, value_make_text("", 0));
    else if (call->round.is_over)
        quorum_call_fail(call);
}

static void decide_any(struct quorum_call *call)
{
    if (call->round.is_over)
        quorum_call_answer(call, value_make_integer(1));
}

static void on_command(void *arg, const struct redis_command *command, redis_done *done,
                       void *done_arg)
{
    struct quorum_call *call = quorum_call_new(arg, SCRIPT_COUNT, NULL, done, done_arg);

    if (strcmp(command->argv[0], "GET") == 0)
        call->decide = decide_get;
    else if (strcmp(command->argv[0], "PEXPIRE") == 0)
        call->decide = decide_any;
    else if (strcmp(command->argv[0], "HDEL") == 0) {
        quorum_told(call, command);
        return;
    } else {
        quorum_call_later(call, refuse);
        return;
    }
    round_begin_command(&call->round, command, (1U << call->calls->nodes) - 1);
}

/* --- life --------------------------------------------------------------------------------- */

/* A callback of a call that ends may begin another call. */
static void on_stop(void *arg)
{
    struct quorum_calls *calls = arg;

    while (calls->live != NULL)
        quorum_call_end(calls->live);
}

static const char *const operation_names[ROUND_OPERATIONS] = {
    [ROUND_VOTE] = "vote",
    [ROUND_CLAIM] = "claim",
    [ROUND_RENEW] = "renew",
    [ROUND_RELEASE] = "release",
    [ROUND_END] = "end",
    [ROUND_FORCE] = "force",
    [ROUND_SPEND] = "spend",
    [ROUND_LOOK] = "look",
    [ROUND_CHECK] = "check",
    [ROUND_OPEN] = "open",
    [ROUND_KEEP_ALIVE] = "keep-alive",
    [ROUND_SESSION] = "session",
    [ROUND_DUE] = "due",
    [ROUND_SHUT] = "shut",
    [ROUND_CLOSE] = "close",
    [ROUND_WATCH] = "watch",
};

/* False: out of memory. */
static bool start_counting(const struct quorum_calls_options *options)
{
    static const struct quorum_labels labels = {.operations = operation_names,
                                                .operation_count = ROUND_OPERATIONS,
                                                .conclusions = conclusion_names,
                                                .conclusion_count = CONCLUSIONS};
    char address[QUORUM_COUNTS_MEMBER_SIZE];

    if (metrics_set_quorum(options->metrics, &labels) != 0)
        return false;
    for (struct topology_node *node = topology_next_node(options->topology, NULL); node != NULL;
         node = topology_next_node(options->topology, node)) {
        topology_node_address(node, address, sizeof(address));
        quorum_counts_name_member(options->metrics->quorum, topology_node_number(node),
                                  address);
    }
    return true;
}

struct quorum_calls *quorum_calls_new(const struct quorum_calls_options *options)
{
    struct quorum_calls *calls = calloc(1, sizeof(*calls));

    if (calls == NULL)
        return NULL;
    calls->options = *options;
    calls->nodes = (unsigned)topology_quorum_nodes(options->topology);
    pool_init(&calls->pool, sizeof(struct quorum_call));
    round_init_pool(&calls->asks);
    calls->repeats = repeat_line_new(options->topology, options->loop);
    if (calls->repeats == NULL || !start_counting(options)) {
        if (calls->repeats != NULL)
            repeat_line_free(calls->repeats);
        free(calls);
        return NULL;
    }
    topology_set_runner(options->topology, &(struct topology_runner){.script = on_script,
                                                                     .command = on_command,
                                                                     .stop = on_stop,
                                                                     .arg = calls});
    return calls;
}

void quorum_calls_free(struct quorum_calls *calls)
{
    assert(calls->live == NULL);
    repeat_line_free(calls->repeats);
    pool_release(&calls->pool);
    pool_release(&calls->asks);
    free(calls);
}

void quorum_calls_go_on(struct quorum_calls *calls)
{
    repeat_go_on(calls->repeats);
}

size_t quorum_calls_pending(const struct quorum_calls *calls)
{
    const struct quorum_call *call;
    size_t count = repeat_pending(calls->repeats);

    DL_FOREACH(calls->live, call) {
        count += call->done == NULL; /* answered: what is left to do concerns the servers */
    }
    return count;
}
