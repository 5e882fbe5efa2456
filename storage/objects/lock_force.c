/* Forcing a lock open. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/objects/lock_store_internal.h"

struct force_call {
    struct lock_store *store;
    lock_force_done *done;
    void *arg;
};

struct reply_word {
    const char *word;
    enum force_outcome outcome;
};

static const struct reply_word reply_words[] = {{"unlocked", FORCE_UNLOCKED},
                                                {"free", FORCE_FREE},
                                                {"stale", FORCE_STALE},
                                                {"wrong-kind", FORCE_WRONG_KIND}};

static void read_reply(struct force_result *out, const struct redis_result *result)
{
    size_t len;
    const char *word = value_text(value_at(result->reply, 0), &len);

    out->failure = CALL_UNKNOWN; /* unless it is a reply of our script */
    for (size_t i = 0; i < sizeof(reply_words) / sizeof(reply_words[0]); i++)
        if (strcmp(reply_words[i].word, word) == 0)
            out->outcome = reply_words[i].outcome;
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct force_call *call = arg;
    struct force_result out = {.outcome = FORCE_FAILED, .failure = call_outcome_of(result)};

    if (out.failure == CALL_WRONG_TYPE)
        out.outcome = FORCE_WRONG_KIND;
    else if (out.failure == CALL_DONE)
        read_reply(&out, result);
    if (out.outcome == FORCE_UNLOCKED)
        metrics_add(call->store->options.metrics, METRIC_FORCED, 1);
    call->done(call->arg, &out);
    free(call);
}

void lock_force(struct lock_store *store, const char *name, const char *only,
                lock_force_done *done, void *arg)
{
    struct force_call *force = malloc(sizeof(*force));
    struct store_call *call = call_begin(store, SCRIPT_FORCE_UNLOCK);
    struct key_base lock = call_object(call, name);

    assert(force != NULL);
    *force = (struct force_call){.store = store, .done = done, .arg = arg};
    call_key(call, FORCE_UNLOCK_KEY_LOCK, KEY_OBJECT, lock, NULL);
    call_key(call, FORCE_UNLOCK_KEY_COUNTER, KEY_COUNTER, lock, NULL);
    call_key(call, FORCE_UNLOCK_KEY_FORCED, KEY_FORCED, lock, NULL);
    call_number(call, FORCE_UNLOCK_ARG_WINDOW_MS, store->options.config->retry_window_ms);
    call_string(call, FORCE_UNLOCK_ARG_ASKED_TOKEN, only);
    call_send(call, on_reply, force);
}
