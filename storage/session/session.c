/* Opens sessions, forgets losses that were told, and reads the first word of replies about a
 * session. */
#include "storage/session/session.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/session/session_internal.h"
#include "storage/store/reply_word.h"

/* --- replies ------------------------------------------------------------------------------ */

static const struct reply_word outcome_words[] = {
    {"opened", SESSION_OPENED, METRIC_COUNT},
    {"open", SESSION_OPEN, METRIC_COUNT},
    {"released", SESSION_RELEASED, METRIC_COUNT},
    {"ended", SESSION_ENDED, METRIC_COUNT},
    {"reused", SESSION_REUSED, METRIC_COUNT},
    {"wait-too-long", SESSION_WAIT_TOO_LONG, METRIC_COUNT},
};

void session_read_outcome(struct session_view *view, const struct redis_result *result)
{
    *view = (struct session_view){.outcome = SESSION_FAILED, .failure = CALL_UNKNOWN};
    if (result->outcome != REDIS_DONE) {
        view->failure = call_outcome_of(result);
        return;
    }
    view->outcome = (enum session_outcome)reply_word_outcome(
        outcome_words, sizeof(outcome_words) / sizeof(outcome_words[0]), result->reply,
        SESSION_FAILED);
    if (view->outcome == SESSION_ENDED)
        lock_copy_text(value_at(result->reply, SESSION_OPEN_REPLY_ENDED_REASON), view->reason,
                       sizeof(view->reason));
}

/* --- open --------------------------------------------------------------------------------- */

struct open_call {
    struct store *store;
    session_done *done;
    void *arg;
    size_t under_way;
    enum call_outcome index_failure; /* CALL_DONE: none */
    struct session_view view;
};

/* A session that is in no index would neither be renewed nor ended: its client asks again. */
static void finish_open(struct open_call *call)
{
    struct session_view *view = &call->view;

    if (--call->under_way > 0)
        return;
    if ((view->outcome == SESSION_OPENED || view->outcome == SESSION_OPEN) &&
        call->index_failure != CALL_DONE)
        *view = (struct session_view){.outcome = SESSION_FAILED, .failure = CALL_UNKNOWN};
    call->done(call->arg, view);
    free(call);
}

static void on_indexed(void *arg, const struct redis_result *result)
{
    struct open_call *call = arg;

    call->index_failure = call_outcome_of(result);
    finish_open(call);
}

static void on_opened(void *arg, const struct redis_result *result)
{
    struct open_call *call = arg;
    struct session_view *view = &call->view;

    session_read_outcome(view, result);
    if (view->outcome == SESSION_OPENED || view->outcome == SESSION_OPEN)
        view->remaining_ms = store_ms_left(
            value_integer(value_at(result->reply, SESSION_OPEN_REPLY_OPEN_REMAINING_MS)),
            result->sent_ns);
    finish_open(call);
}

void session_open(struct store *store, const char *session_id,
                  const struct session_options *options, session_done *done, void *arg)
{
    const struct config *config = store_config(store);
    int64_t period_ms = watchdog_period_ms(config);
    int64_t ttl_ms = options->ttl_ms;
    struct key_base session = call_base(session_id);
    struct open_call *open = calloc(1, sizeof(*open));

    assert(open != NULL);
    *open = (struct open_call){.store = store, .done = done, .arg = arg, .under_way = 2};
    session_index_set(store, session_id, ttl_ms < period_ms ? ttl_ms : period_ms, NULL,
                      on_indexed, open);
    struct store_call *call = call_begin(store, SCRIPT_SESSION_OPEN);
    call_key(call, SESSION_OPEN_KEY_SESSION, KEY_SESSION, session, NULL);
    call_key(call, SESSION_OPEN_KEY_NOTES, KEY_SESSION_LEASES, session, NULL);
    call_key(call, SESSION_OPEN_KEY_DUE, KEY_SESSION_DUE, session, NULL);
    call_number(call, SESSION_OPEN_ARG_TTL_MS, ttl_ms);
    call_string(call, SESSION_OPEN_ARG_NAME, options->name);
    call_number(call, SESSION_OPEN_ARG_WINDOW_MS, config->retry_window_ms);
    call_flag(call, SESSION_OPEN_ARG_IS_RETURNED, options->is_returned);
    call_string(call, SESSION_OPEN_ARG_ON_DEADLOCK,
                options->on_deadlock == ON_DEADLOCK_REFUSE ? ON_DEADLOCK_WORD : "");
    call_send(call, on_opened, open);
}

/* --- losses that an answer has named ------------------------------------------------------ */

static void on_ignored(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result;
}

void session_forget_losses(struct store *store, const char *session_id, char *const *texts,
                           size_t count)
{
    const char **argv = malloc((count + 2) * sizeof(*argv));
    size_t *lens = malloc((count + 2) * sizeof(*lens));
    struct key lost;

    assert(argv != NULL && lens != NULL);
    key_make(&lost, KEY_SESSION_LOST, session_id, strlen(session_id), NULL);
    argv[0] = "HDEL";
    lens[0] = 4;
    argv[1] = lost.text;
    lens[1] = lost.len;
    for (size_t i = 0; i < count; i++) {
        argv[i + 2] = texts[i];
        lens[i + 2] = strlen(texts[i]);
    }
    const struct redis_command command = {.argc = count + 2, .argv = argv, .lens = lens};
    const struct redis_tag tag = redis_tag_of(lost.text, lost.len);
    /* Told once more, should this fail. */
    topology_command(store_topology(store), &tag, &command, on_ignored, NULL);
    free(argv);
    free(lens);
}
