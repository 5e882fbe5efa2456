#include "storage/objects/look_turns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "server/base/clock.h"
#include "storage/objects/lock_store_internal.h"

enum { UNDER_WAY_MAX = 1, WAITING_MAX = 1000, WAIT_MAX_MS = 2000 };

/* A look that took longer is followed by a pause. Redis answers the commands of a connection
 * when it has run all that it has read of them: without a pause the next look would be among
 * the commands that came meanwhile, and each of those would wait for two looks. */
#define LONG_LOOK_NS (CLOCK_NS_PER_MS / 4)
#define PAUSE_NS (1 * CLOCK_NS_PER_MS)

/* A script of its own that waits: the texts of its KEYS and ARGV stand behind it. */
struct look_script {
    enum script script;
    struct script_args args;
    char texts[];
};

struct look_turn {
    struct lock_store *store;
    redis_done *done;
    void *arg;
    int64_t since_ns;
    struct look_script *script; /* NULL: sent */
    struct look_turn *prev, *next;
};

static size_t texts_len(const struct script_args *args)
{
    size_t len = 0;

    for (size_t i = 0; i < args->key_count; i++)
        len += args->keys[i].len + 1;
    for (size_t i = 0; i < args->count; i++)
        len += args->args[i].len + 1;
    return len;
}

static char *copy_texts(char *out, struct script_text *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(out, texts[i].text, texts[i].len);
        out[texts[i].len] = '\0';
        texts[i].text = out;
        out += texts[i].len + 1;
    }
    return out;
}

static struct look_script *look_script_new(enum script script, const struct script_args *args)
{
    struct look_script *copy = malloc(sizeof(*copy) + texts_len(args));

    assert(copy != NULL);
    copy->script = script;
    copy->args = *args;
    char *out = copy_texts(copy->texts, copy->args.keys, args->key_count);
    copy_texts(out, copy->args.args, args->count);
    return copy;
}

static void start_waiting(struct lock_store *store);

static void on_reply(void *arg, const struct redis_result *result)
{
    struct look_turn *turn = arg;
    struct lock_store *store = turn->store;
    struct loop *loop = store->options.loop;

    store->looks_under_way--;
    if (loop_now_ns(loop) - result->sent_ns > LONG_LOOK_NS)
        timer_arm(loop_timers(loop), &store->look_pause, loop_now_ns(loop) + PAUSE_NS);
    turn->done(turn->arg, result);
    free(turn);
    start_waiting(store);
}

static bool may_start(const struct lock_store *store)
{
    return store->looks_under_way < UNDER_WAY_MAX && !timer_is_armed(&store->look_pause);
}

static void send(struct look_turn *turn, enum script script, const struct script_args *args)
{
    const struct script_call call = script_call_make(script, args);

    turn->store->looks_under_way++;
    topology_script(turn->store->options.topology, &call, on_reply, turn);
}

static void start(struct look_turn *turn)
{
    struct look_script *script = turn->script;

    turn->script = NULL;
    send(turn, script->script, &script->args);
    free(script);
}

static void refuse(struct look_turn *turn)
{
    const struct redis_result refused = {.outcome = REDIS_REFUSED, .sent_ns = turn->since_ns};

    turn->done(turn->arg, &refused);
    free(turn->script);
    free(turn);
}

static void start_waiting(struct lock_store *store)
{
    int64_t now_ns = loop_now_ns(store->options.loop);

    while (may_start(store) && store->waiting_looks != NULL) {
        struct look_turn *turn = store->waiting_looks;
        DL_DELETE(store->waiting_looks, turn);
        store->waiting_look_count--;
        if (now_ns - turn->since_ns > WAIT_MAX_MS * CLOCK_NS_PER_MS)
            refuse(turn);
        else
            start(turn);
    }
}

static void wait_in_line(struct look_turn *turn, enum script script,
                         const struct script_args *args)
{
    struct lock_store *store = turn->store;

    turn->script = look_script_new(script, args);
    DL_APPEND(store->waiting_looks, turn);
    /* The oldest has waited long: with so many behind it, its turn would come too late. */
    if (++store->waiting_look_count > WAITING_MAX) {
        struct look_turn *oldest = store->waiting_looks;
        DL_DELETE(store->waiting_looks, oldest);
        store->waiting_look_count--;
        refuse(oldest);
    }
}

void call_send_in_turn(struct store_call *call, redis_done *done, void *arg)
{
    struct lock_store *store;
    enum script script;
    const struct script_args *args = call_close(call, &store, &script);
    struct look_turn *turn = calloc(1, sizeof(*turn));

    assert(turn != NULL);
    turn->store = store;
    turn->done = done;
    turn->arg = arg;
    turn->since_ns = loop_now_ns(store->options.loop);
    if (may_start(store) && store->waiting_looks == NULL)
        send(turn, script, args);
    else
        wait_in_line(turn, script, args);
}

static void on_pause_over(void *arg)
{
    start_waiting(arg);
}

void look_turns_init(struct lock_store *store)
{
    store->look_pause = (struct timer){.fire = on_pause_over, .arg = store};
}

void look_turns_release(struct lock_store *store)
{
    timer_cancel(loop_timers(store->options.loop), &store->look_pause);
}
