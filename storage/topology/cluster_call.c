/* The copy of a call that may have to be sent again. */
#include "storage/topology/cluster_call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"

static size_t size_of(const struct script_text *texts, size_t count)
{
    size_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += texts[i].len;
    return size;
}

static char *copy_texts(struct script_text *to, const struct script_text *from, size_t count,
                        char *memory)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(memory, from[i].text, from[i].len);
        to[i] = (struct script_text){memory, from[i].len};
        memory += from[i].len;
    }
    return memory;
}

struct cluster_call *cluster_call_new(struct cluster *cluster, const struct script_text *keys,
                                      size_t key_count, const struct script_text *args,
                                      size_t arg_count, redis_done *done, void *arg)
{
    size_t texts_size = (key_count + arg_count) * sizeof(struct script_text);
    struct cluster_call *call = malloc(sizeof(*call) + texts_size + size_of(keys, key_count) +
                                       size_of(args, arg_count));

    assert(call != NULL);
    *call = (struct cluster_call){.cluster = cluster,
                                  .done = done,
                                  .arg = arg,
                                  .asked_ns = clock_ns(),
                                  .refusal = REDIS_REFUSED_UNAVAILABLE,
                                  .key_count = key_count,
                                  .arg_count = arg_count};
    char *memory = (char *)call->texts + texts_size;
    memory = copy_texts(call->texts, keys, key_count, memory);
    copy_texts(call->texts + key_count, args, arg_count, memory);
    return call;
}

void cluster_call_end(struct cluster_call *call, const struct redis_result *result)
{
    call->done(call->arg, result);
    free(call);
}

void cluster_calls_refuse(void *arg)
{
    static const struct redis_server nobody;
    struct cluster *cluster = arg;
    struct cluster_call *calls = cluster->refused, *call, *next;

    cluster->refused = NULL; /* a callback may ask, and be refused, again */
    DL_FOREACH_SAFE(calls, call, next) {
        const struct redis_result result = {
            .outcome = REDIS_REFUSED,
            .refusal = call->refusal,
            .sent_ns = call->asked_ns,
            .server = call->node != NULL ? redis_link_server(call->node->node.commands)
                                         : &nobody};
        metrics_add(cluster->topology.options.metrics, METRIC_REDIS_NOT_EXECUTED, 1);
        cluster_call_end(call, &result);
    }
}

void cluster_call_refuse(struct cluster_call *call)
{
    struct cluster *cluster = call->cluster;

    DL_APPEND(cluster->refused, call);
    timer_arm(loop_timers(cluster->topology.options.loop), &cluster->refuse, 0);
}

static void send_script(struct cluster_call *call, struct redis_link *link, redis_done *replied)
{
    struct script_args args;

    args_init(&args);
    for (size_t i = 0; i < call->key_count; i++)
        args_key(&args, i, call->texts[i].text, call->texts[i].len);
    const struct script_text *texts = call->texts + call->key_count;
    for (size_t i = 0; i < call->arg_count; i++)
        args_text(&args, i, texts[i].text, texts[i].len);
    const struct script_call script = script_call_make(call->script, &args);
    redis_link_script(link, &script, replied, call);
}

static void send_command(struct cluster_call *call, struct redis_link *link,
                         redis_done *replied)
{
    const char **argv = malloc(call->arg_count * sizeof(*argv));
    size_t *lens = malloc(call->arg_count * sizeof(*lens));

    assert(argv != NULL && lens != NULL);
    for (size_t i = 0; i < call->arg_count; i++) {
        argv[i] = call->texts[i].text;
        lens[i] = call->texts[i].len;
    }
    const struct redis_command command = {.argc = call->arg_count, .argv = argv, .lens = lens};
    redis_link_command(link, &command, replied, call);
    free(argv);
    free(lens);
}

void cluster_call_send(struct cluster_call *call, struct cluster_node *node,
                       redis_done *replied)
{
    struct cluster *cluster = call->cluster;

    call->node = node;
    node->in_flight++;
    if (call->slot < REDIS_SLOTS)
        cluster->in_flight[call->slot]++;
    if (call->is_command)
        send_command(call, node->node.commands, replied);
    else
        send_script(call, node->node.commands, replied);
}
