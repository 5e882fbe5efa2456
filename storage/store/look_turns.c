/* The queue of large looks, and the pause behind a look that took long. */
#include "storage/store/look_turns.h"

#include <assert.h>
#include <stdlib.h>

#include "server/base/clock.h"
#include "storage/store/store_internal.h"

enum { UNDER_WAY_MAX = 1 };

/* A look that took longer is followed by a pause. Redis replies after it has run everything
 * that it read from a connection: without the pause, a short command that was read together
 * with the next look would wait for both. */
#define LONG_LOOK_NS (CLOCK_NS_PER_MS / 4)
#define PAUSE_NS (1 * CLOCK_NS_PER_MS)

struct look {
    struct turn turn;
    struct store *store;
    enum script script;
    const struct script_args *args;
    struct script_args *copy; /* of `args`; NULL: the caller has them still */
    redis_done *done;
    void *arg;
};

void look_turn_start(struct store *store, struct turn *turn)
{
    turn_start(&store->looks, turn);
}

void look_turn_end(struct store *store, struct turn *turn)
{
    turn_end(&store->looks, turn);
}

void look_turns_go_on(struct store *store)
{
    turns_go_on(&store->looks);
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct look *look = arg;
    struct store *store = look->store;

    turn_end(&store->looks, &look->turn);
    if (loop_now_ns(store->looks.loop) - result->sent_ns > LONG_LOOK_NS)
        turns_pause(&store->looks, PAUSE_NS);
    look->done(look->arg, result);
    free(look);
    look_turns_go_on(store);
}

static void refuse(struct look *look)
{
    const struct redis_result refused = {.outcome = REDIS_REFUSED,
                                         .sent_ns = look->turn.since_ns};

    look->done(look->arg, &refused);
    free(look->copy);
    free(look);
}

static void on_turn(void *arg, bool may)
{
    struct look *look = arg;

    if (!may) {
        refuse(look);
        return;
    }
    const struct script_call call = script_call_make(look->script, look->args);
    topology_script(look->store->options.topology, &call, on_reply, look);
    free(look->copy);
    look->copy = NULL;
}

void call_send_in_turn(struct store_call *call, redis_done *done, void *arg)
{
    struct look *look = calloc(1, sizeof(*look));

    assert(look != NULL);
    look->args = call_close(call, &look->store, &look->script);
    look->turn = (struct turn){.begin = on_turn, .arg = look, .weight = 1};
    look->done = done;
    look->arg = arg;
    if (!turns_are_free(&look->store->looks)) {
        look->copy = args_copy(look->args);
        look->args = look->copy;
    }
    turn_start(&look->store->looks, &look->turn);
}

void look_turns_init(struct store *store)
{
    turns_init(&store->looks, store->options.loop, UNDER_WAY_MAX, TURNS_REFUSE);
}
