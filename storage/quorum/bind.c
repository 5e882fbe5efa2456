/* The note of a lease in its session (S1 of docs/quorum.md): it goes to each server with each
 * vote and each repair of the lease, in one write, and a server without the note does not vote.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/quorum/calls_internal.h"

enum {
    WATCHDOG_SHARE = 3, /* of its timeout: watchdog_period_ms() */
    SESSION_ID_LEN = 36 /* a longer text in a record is none of rlockd's */
};

/* The records of several locks end in ":m". */
static bool is_of_set(const struct script_text *record)
{
    return record->text[record->len - 1] == 'm';
}

/* The ref of the lease in its session; the caller frees it. */
static char *make_ref(const struct quorum_call *call, size_t stride, size_t record, size_t *len)
{
    const struct script_args *args = call->args;
    size_t size = args->args[0].len + 2, at;
    bool is_set = is_of_set(&args->keys[record]);

    for (size_t i = 0; i < args->key_count; i += stride)
        size += args->keys[i].len + 1;
    char *ref = malloc(size);
    assert(ref != NULL);
    memcpy(ref, args->args[0].text, args->args[0].len);
    at = args->args[0].len;
    ref[at++] = ' ';
    for (size_t i = 0; i < args->key_count; i += stride) {
        if (is_set)
            ref[at++] = '\n';
        memcpy(ref + at, args->keys[i].text, args->keys[i].len);
        at += args->keys[i].len;
    }
    *len = at;
    return ref;
}

void quorum_put_session_keys(const struct quorum_calls *calls, struct script_args *args,
                             const enum quorum_key *keys, size_t count, struct redis_tag id,
                             char texts[][SESSION_KEY_SIZE])
{
    for (size_t i = 0; i < count; i++)
        args_key(args, i, texts[i],
                 calls->options.write_key(texts[i], keys[i], id.text, id.len));
}

struct script_args *quorum_bind_args(const struct quorum_call *call, size_t stride,
                                     size_t record, const char *record_text,
                                     struct script_text attempt, int64_t ttl_ms)
{
    static const enum quorum_key keys[SESSION_BIND_KEYS] = {
        [SESSION_BIND_KEY_SESSION] = QUORUM_KEY_SESSION,
        [SESSION_BIND_KEY_NOTES] = QUORUM_KEY_SESSION_LEASES,
        [SESSION_BIND_KEY_DUE] = QUORUM_KEY_SESSION_DUE};
    const struct quorum_calls_options *options = &call->calls->options;
    int64_t period_ms = options->config->watchdog_timeout_ms / WATCHDOG_SHARE;
    char texts[SESSION_BIND_KEYS][SESSION_KEY_SIZE];
    size_t watchdog_len, ref_len;
    struct redis_tag session;
    struct script_args args;

    session.text = quorum_line(record_text, LINE_SESSION, &session.len);
    if (session.len == 0 || session.len > SESSION_ID_LEN)
        return NULL;
    (void)quorum_line(record_text, LINE_WATCHDOG, &watchdog_len);
    args_init(&args);
    quorum_put_session_keys(call->calls, &args, keys, SESSION_BIND_KEYS, session, texts);
    char *ref = make_ref(call, stride, record, &ref_len);
    args_text(&args, SESSION_BIND_ARG_REF, ref, ref_len);
    args_text(&args, SESSION_BIND_ARG_ATTEMPT, attempt.text, attempt.len);
    args_number(&args, SESSION_BIND_ARG_DUE_MS, watchdog_len > 0 ? period_ms : ttl_ms);
    args_number(&args, SESSION_BIND_ARG_LIMIT, options->session_locks_max);
    struct script_args *made = args_copy(&args);
    free(ref);
    return made;
}

/* --- what the replies say of the session ---------------------------------------------------
 */

bool quorum_is_session_over(const struct quorum_call *call, const struct node_reply *replies,
                            const char **reason)
{
    struct node_reply ends[QUORUM_NODES_MAX];
    unsigned unbound = 0;

    for (size_t i = 0; i < call->calls->nodes; i++) {
        ends[i] = replies[i];
        if (replies[i].word == NODE_UNBOUND) {
            ends[i].word = NODE_ENDED;
            unbound++;
        }
    }
    *reason = quorum_end_reason(call, ends);
    return unbound >= quorum_majority(call->calls->nodes);
}

enum conclusion_word quorum_conclude_bound(const struct quorum_call *call,
                                           const struct node_reply *replies)
{
    if (quorum_call_find(call, replies, NODE_REFUSED, -1) < call->calls->nodes)
        return CONCLUDE_REFUSED;
    if (quorum_call_find(call, replies, NODE_BUSY, -1) < call->calls->nodes)
        return CONCLUDE_BUSY;
    if (quorum_call_find(call, replies, NODE_QUARANTINE, -1) < call->calls->nodes)
        return CONCLUDE_QUARANTINE;
    return CONCLUDE_UNKNOWN;
}

/* --- the call of the store ---------------------------------------------------------------- */

/* The name of the session is put into the record by each server. */
static void answer_bound(struct quorum_call *call)
{
    quorum_call_answer(call, value_make_text("", 0));
}

void quorum_bind(struct quorum_call *call)
{
    quorum_call_later(call, answer_bound);
}
