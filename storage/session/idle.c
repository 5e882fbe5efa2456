/* A visit to several sessions at once: most have nothing due. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/notes/notes.h"
#include "storage/session/visit.h"

struct idle_call {
    struct store *store;
    visit_done *done;
    void *arg;
    char claim[VISIT_CLAIM_SIZE];
    size_t count;
    char ids[SESSIONS_VISIT_MAX][SESSION_ID_SIZE];
};

static bool is_named(const struct redis_value *others, size_t i)
{
    for (size_t at = 0; at < value_count(others); at++)
        if (value_integer(value_at(others, at)) == (int64_t)i)
            return true;
    return false;
}

/* Returns those that are to be visited. */
static const struct redis_value *read_reply(const struct idle_call *call,
                                            const struct redis_value *reply)
{
    const struct redis_value *others = value_at(reply, SESSION_IDLE_REPLY_OTHERS);
    const struct redis_value *next = others != NULL
                                         ? value_at(reply, SESSION_IDLE_REPLY_NEXT_MS)
                                         : reply;

    index_expect(call->store, INDEX_SESSIONS, call->ids[0], value_integer(next));
    return others;
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct idle_call *call = arg;
    bool is_done = result->outcome == REDIS_DONE;
    const struct redis_value *others = is_done ? read_reply(call, result->reply) : NULL;

    for (size_t i = 0; i < call->count; i++) {
        if (is_done && !is_named(others, i))
            call->done(call->arg);
        else
            session_visit(call->store, call->ids[i], call->claim, call->done, call->arg);
    }
    free(call);
}

void sessions_visit(struct store *store, char (*ids)[SESSION_ID_SIZE], size_t count,
                    const char claim[VISIT_CLAIM_SIZE], visit_done *done, void *arg)
{
    struct store_call *script = call_begin(store, SCRIPT_SESSION_IDLE);
    struct idle_call *call = calloc(1, sizeof(*call));

    assert(call != NULL && count > 0 && count <= SESSIONS_VISIT_MAX);
    *call = (struct idle_call){.store = store, .done = done, .arg = arg, .count = count};
    memcpy(call->ids, ids, count * sizeof(*ids));
    snprintf(call->claim, sizeof(call->claim), "%s", claim);
    session_index_key(script, SESSION_IDLE_KEY_INDEX, call->ids[0]);
    call_string(script, SESSION_IDLE_ARG_CLAIM, call->claim);
    call_number(script, SESSION_IDLE_ARG_IN_MS, watchdog_period_ms(store_config(store)));
    for (size_t i = 0; i < count; i++) {
        struct key_base session = call_base(call->ids[i]);
        size_t at = SESSION_IDLE_KEY_HOMES + 2 * i;
        call_key(script, at, KEY_SESSION, session, NULL);
        call_key(script, at + 1, KEY_SESSION_DUE, session, NULL);
        call_string(script, SESSION_IDLE_ARG_IDS + i, call->ids[i]);
    }
    call_send(script, on_reply, call);
}
