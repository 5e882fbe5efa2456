/* One visit of the watchdog to the queue of a fair lock. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "storage/notes/notes.h"
#include "storage/session/visit.h"

struct queue_call {
    struct store *store;
    visit_done *done;
    void *arg;
    char name[KEY_NAME_MAX + 1];
    char claim[VISIT_CLAIM_SIZE];
};

static void on_reply(void *arg, const struct redis_result *result)
{
    struct queue_call *call = arg;

    if (result->outcome == REDIS_DONE)
        index_set(call->store, INDEX_QUEUES, call->name, value_integer(result->reply),
                  call->claim, NULL, NULL);
    else if (result->refusal == REDIS_REFUSED_WRONG_TYPE) /* in the place of the queue's keys */
        index_set(call->store, INDEX_QUEUES, call->name, -1, call->claim, NULL, NULL);
    call->done(call->arg);
    free(call);
}

void queue_visit(struct store *store, const char *name, const char claim[VISIT_CLAIM_SIZE],
                 visit_done *done, void *arg)
{
    struct store_call *script = call_begin(store, SCRIPT_QUEUE_VISIT);
    struct queue_call *call = calloc(1, sizeof(*call));
    int64_t lost_ms = call_lost_ms(script, call_base(name));

    assert(call != NULL);
    call->store = store;
    call->done = done;
    call->arg = arg;
    snprintf(call->name, sizeof(call->name), "%s", name);
    snprintf(call->claim, sizeof(call->claim), "%s", claim);
    call_key(script, QUEUE_VISIT_KEY_LOCK, KEY_OBJECT, call_base(call->name), NULL);
    if (lost_ms >= 0)
        call_number(script, QUEUE_VISIT_ARG_LOST_MS, lost_ms);
    call_send(script, on_reply, call);
}
