/* The scripts' calls that keep and find the names of a set. */
#include "storage/notes/set_names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/text.h"
#include "storage/store/reply_word.h"
#include "storage/store/store.h"
#include "storage/store/store_call.h"

struct names_call {
    struct store *store;
    set_names_done *done; /* may be NULL */
    void *arg;
    bool spend;
    char lease_id[LEASE_ID_SIZE];
};

static struct names_call *call_new(struct store *store, const char *lease_id,
                                   set_names_done *done, void *arg)
{
    struct names_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    call->store = store;
    call->done = done;
    call->arg = arg;
    memcpy(call->lease_id, lease_id, sizeof(call->lease_id));
    return call;
}

static void finish(struct names_call *call, const struct set_names *result)
{
    if (call->done != NULL)
        call->done(call->arg, result);
    lock_names_unref(result->names);
    free(call);
}

static const struct reply_word reply_words[] = {
    {"spent", SET_NAMES_SPENT, METRIC_COUNT},
    {"reused", SET_NAMES_REUSED, METRIC_COUNT},
};

static enum set_names_outcome outcome_of(const struct redis_result *result)
{
    if (result->outcome != REDIS_DONE)
        return SET_NAMES_FAILED;
    if (value_is_integer(result->reply))
        return SET_NAMES_KEPT;
    return (enum set_names_outcome)reply_word_outcome(
        reply_words, sizeof(reply_words) / sizeof(reply_words[0]), result->reply,
        SET_NAMES_REUSED);
}

/* --- keeping names ------------------------------------------------------------------------ */

static void send_names(struct names_call *call, const char *names, size_t len, int64_t keep_ms,
                       redis_done *done)
{
    struct store_call *script = call_begin(call->store, SCRIPT_SET_NAMES);

    call_key(script, SET_NAMES_KEY_SET, KEY_SET, call_base(call->lease_id), NULL);
    call_text(script, SET_NAMES_ARG_NAMES, names, len);
    call_number(script, SET_NAMES_ARG_KEEP_MS, keep_ms);
    call_send(script, done, call);
}

static void on_kept(void *arg, const struct redis_result *result)
{
    const struct set_names names = {.outcome = outcome_of(result),
                                    .failure = call_outcome_of(result)};

    finish(arg, &names);
}

static void keep(struct store *store, const struct lease *lease, int64_t ms,
                 set_names_done *done, void *arg)
{
    size_t len;
    char *names = lock_names_join(lease->names, store_config(store)->key_prefix, &len);

    send_names(call_new(store, lease->id, done, arg), names, len,
               ms + store_config(store)->retry_window_ms, on_kept);
    free(names);
}

/* Of a request that is refused nothing is kept for longer. */
#define ASKED_MAX_MS 600000

void set_names_keep(struct store *store, const struct lease *lease, int64_t wait_ms,
                    set_names_done *done, void *arg)
{
    int64_t ttl_ms = set_names_are_short(lease) ? ASKED_MAX_MS : lease->ttl_ms;

    keep(store, lease, ttl_ms + wait_ms, done, arg);
}

bool set_names_are_short(const struct lease *lease)
{
    return lease_is_set(lease) && lease->ttl_ms > ASKED_MAX_MS;
}

void set_names_hold(struct store *store, const struct lease *lease, set_names_done *done,
                    void *arg)
{
    keep(store, lease, lease->ttl_ms, done, arg);
}

void set_names_extend(struct store *store, const struct lease_ref *ref, int64_t keep_ms)
{
    char lease_id[LEASE_ID_SIZE];

    lease_ref_id(ref, lease_id);
    /* Behind the id and a blank a ref has the names as they are kept. */
    send_names(call_new(store, lease_id, NULL, NULL), ref->text + LEASE_ID_SIZE,
               ref->len - LEASE_ID_SIZE, keep_ms, on_kept);
}

static void on_shortened(void *arg, const struct redis_result *result)
{
    (void)arg;
    (void)result; /* should it have failed, the names stay as long as the lease would have */
}

void set_names_end(struct store *store, const char *lease_id)
{
    struct key key;
    char window_ms[TEXT_INT64_SIZE];

    key_make(&key, KEY_SET, lease_id, strlen(lease_id), NULL);
    size_t window_len = text_format_int64(window_ms, store_config(store)->retry_window_ms);
    const char *argv[] = {"PEXPIRE", key.text, window_ms};
    const size_t lens[] = {7, key.len, window_len};
    const struct redis_command command = {.argc = 3, .argv = argv, .lens = lens};
    const struct redis_tag tag = redis_tag_of(key.text, key.len);
    topology_command(store_topology(store), &tag, &command, on_shortened, NULL);
}

bool lease_stays(const struct redis_value *end)
{
    enum { STAYS = 2 };

    return value_integer(end) == STAYS;
}

void set_names_end_noted(struct store *store, const struct lease_ref *ref,
                         const struct redis_value *end)
{
    char lease_id[LEASE_ID_SIZE];

    if (!lease_ref_is_set(ref) || lease_stays(end))
        return;
    lease_ref_id(ref, lease_id);
    set_names_end(store, lease_id);
}

/* --- finding names ------------------------------------------------------------------------ */

static void send_get(struct names_call *call, redis_done *done)
{
    struct key key;

    key_make(&key, KEY_SET, call->lease_id, strlen(call->lease_id), NULL);
    const char *argv[] = {"GET", key.text};
    const size_t lens[] = {3, key.len};
    const struct redis_command command = {.argc = 2, .argv = argv, .lens = lens};
    const struct redis_tag tag = redis_tag_of(key.text, key.len);
    topology_command(store_topology(call->store), &tag, &command, done, call);
}

static void on_found(void *arg, const struct redis_result *result);

/* Names that were kept meanwhile are looked for once more. */
static void on_spent(void *arg, const struct redis_result *result)
{
    struct names_call *call = arg;
    struct set_names names = {.outcome = outcome_of(result),
                              .failure = call_outcome_of(result)};

    call->spend = false;
    if (names.outcome == SET_NAMES_REUSED) {
        send_get(call, on_found);
        return;
    }
    if (names.outcome != SET_NAMES_FAILED)
        names.outcome = SET_NAMES_UNKNOWN;
    finish(call, &names);
}

static void on_found(void *arg, const struct redis_result *result)
{
    struct names_call *call = arg;
    const struct config *config = store_config(call->store);
    struct set_names names = {.outcome = SET_NAMES_UNKNOWN, .failure = call_outcome_of(result)};
    size_t len;

    if (names.failure != CALL_DONE) {
        names.outcome = SET_NAMES_FAILED;
    } else {
        const char *text = value_text(result->reply, &len);
        names.names = lock_names_parse(text, strlen(config->key_prefix));
        if (names.names != NULL)
            names.outcome = SET_NAMES_KEPT;
    }
    if (names.outcome == SET_NAMES_UNKNOWN && call->spend)
        send_names(call, "", 0, config->retry_window_ms, on_spent);
    else
        finish(call, &names);
}

void set_names_find(struct store *store, const char *lease_id, bool spend, set_names_done *done,
                    void *arg)
{
    struct names_call *call = call_new(store, lease_id, done, arg);

    call->spend = spend;
    send_get(call, on_found);
}
