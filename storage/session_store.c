#include "storage/session_store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "storage/lock_store_internal.h"
#include "storage/multi_store.h"

/* Leases that one run of the script releases: well below a millisecond of Redis' thread each.
 */
enum { END_BATCH = 100 };

struct session_call {
    struct lock_store *store;
    session_done *done;
    void *arg;
    char session_id[SESSION_ID_SIZE];
};

struct outcome_word {
    const char *word;
    enum session_outcome outcome;
};

static const struct outcome_word outcome_words[] = {
    {"opened", SESSION_OPENED},     {"open", SESSION_OPEN},
    {"released", SESSION_RELEASED}, {"ended", SESSION_ENDED},
    {"reused", SESSION_REUSED},     {"wait-too-long", SESSION_WAIT_TOO_LONG},
};

static enum session_outcome read_outcome(const struct redisReply *reply)
{
    size_t len;
    const char *word = redis_reply_text(redis_reply_at(reply, 0), &len);

    for (size_t i = 0; i < sizeof(outcome_words) / sizeof(outcome_words[0]); i++)
        if (strcmp(outcome_words[i].word, word) == 0)
            return outcome_words[i].outcome;
    return SESSION_FAILED;
}

static void finish(struct session_call *call, const struct session_view *view)
{
    call->done(call->arg, view);
    free(call);
}

static struct session_call *call_new(struct lock_store *store, const char *session_id,
                                     session_done *done, void *arg)
{
    struct session_call *call = calloc(1, sizeof(*call));

    assert(call != NULL);
    call->store = store;
    call->done = done;
    call->arg = arg;
    snprintf(call->session_id, sizeof(call->session_id), "%s", session_id);
    return call;
}

static void send_call(struct session_call *call, enum script script,
                      const struct script_args *args, redis_done *done)
{
    args_send(call->store, script, args, done, call);
}

/* False when Redis did not do it: then the call has ended. */
static bool begin_reply(struct session_call *call, const struct redis_result *result,
                        struct session_view *view)
{
    *view = (struct session_view){.outcome = SESSION_FAILED, .failure = LOCK_UNKNOWN};
    if (result->outcome != REDIS_DONE) {
        view->failure = lock_outcome_of(result);
        finish(call, view);
        return false;
    }
    view->outcome = read_outcome(result->reply);
    if (view->outcome == SESSION_ENDED)
        lock_copy_text(redis_reply_at(result->reply, 1), view->reason, sizeof(view->reason));
    return true;
}

/* --- open --------------------------------------------------------------------------------- */

static void on_opened(void *arg, const struct redis_result *result)
{
    struct session_call *call = arg;
    struct session_view view;

    if (!begin_reply(call, result, &view))
        return;
    if (view.outcome == SESSION_OPENED || view.outcome == SESSION_OPEN)
        view.remaining_ms = lock_ms_left(call->store,
                                         redis_reply_integer(redis_reply_at(result->reply, 1)),
                                         result->sent_ns);
    finish(call, &view);
}

void session_open(struct lock_store *store, const char *session_id, bool made, int64_t ttl_ms,
                  const char *name, session_done *done, void *arg)
{
    struct session_call *call = call_new(store, session_id, done, arg);
    struct script_args args = {0};
    struct key session, sessions = {.len = sizeof(KEY_SESSIONS) - 1, .text = KEY_SESSIONS};

    key_for_id(&session, KEY_SESSION, session_id);
    args_key(&args, &session);
    args_key(&args, &sessions);
    args_string(&args, session_id);
    args_number(&args, ttl_ms);
    args_string(&args, name);
    args_number(&args, store->options.config->retry_window_ms);
    args_string(&args, made ? "1" : "0");
    send_call(call, SCRIPT_SESSION_OPEN, &args, on_opened);
}

/* --- look and keep alive ------------------------------------------------------------------ */

/* A lock as clients say it, without the operator's prefix, or several of them. */
static const char *read_names(const struct lock_store *store, const char *text,
                              struct lock_names **locks)
{
    size_t prefix_len = strlen(store->options.config->key_prefix);

    *locks = lock_names_parse(text, prefix_len);
    return strlen(text) >= prefix_len ? text + prefix_len : "";
}

enum { LEASE_VALUES = 9 };

static struct session_lease_view *read_leases(const struct session_call *call,
                                              const struct redisReply *reply, int64_t sent_ns,
                                              size_t *count)
{
    size_t len;

    *count = redis_reply_count(reply) / LEASE_VALUES;
    struct session_lease_view *leases = calloc(*count + 1, sizeof(*leases));
    assert(leases != NULL);
    for (size_t i = 0; i < *count; i++) {
        size_t at = i * LEASE_VALUES;
        leases[i].lease_id = redis_reply_text(redis_reply_at(reply, at), &len);
        leases[i].lock = read_names(call->store,
                                    redis_reply_text(redis_reply_at(reply, at + 1), &len),
                                    &leases[i].locks);
        leases[i].remaining_ms = lock_ms_left(
            call->store, redis_reply_integer(redis_reply_at(reply, at + 2)), sent_ns);
        leases[i].fencing_token = redis_reply_integer(redis_reply_at(reply, at + 3));
        if (leases[i].locks != NULL)
            multi_numbers(redis_reply_text(redis_reply_at(reply, at + 3), &len),
                          leases[i].fencing_tokens, leases[i].locks->count);
        leases[i].owner = redis_reply_text(redis_reply_at(reply, at + 4), &len);
        leases[i].ttl_ms = redis_reply_integer(redis_reply_at(reply, at + 5));
        leases[i].watchdog = redis_reply_integer(redis_reply_at(reply, at + 6)) == 1;
        leases[i].note = redis_reply_text(redis_reply_at(reply, at + 7), &len);
        leases[i].kind = redis_reply_text(redis_reply_at(reply, at + 8), &len);
    }
    return leases;
}

/* Pairs of a lease id and "<reason>\n<kind>\n<lock>". */
static struct session_loss_view *read_losses(const struct session_call *call,
                                             const struct redisReply *reply, size_t *count)
{
    size_t len;

    *count = redis_reply_count(reply) / 2;
    struct session_loss_view *losses = calloc(*count + 1, sizeof(*losses));
    assert(losses != NULL);
    for (size_t i = 0; i < *count; i++) {
        losses[i].lease_id = redis_reply_text(redis_reply_at(reply, 2 * i), &len);
        const char *text = redis_reply_text(redis_reply_at(reply, 2 * i + 1), &len);
        size_t reason_len = strcspn(text, "\n");
        snprintf(losses[i].reason, sizeof(losses[i].reason), "%.*s", (int)reason_len, text);
        text += reason_len + (text[reason_len] == '\n');
        size_t kind_len = strcspn(text, "\n");
        snprintf(losses[i].kind, sizeof(losses[i].kind), "%.*s", (int)kind_len, text);
        text += kind_len + (text[kind_len] == '\n');
        losses[i].lock = read_names(call->store, text, &losses[i].locks);
    }
    return losses;
}

static void on_looked(void *arg, const struct redis_result *result)
{
    struct session_call *call = arg;
    const struct redisReply *reply = result->reply;
    struct session_view view;
    size_t len;

    if (!begin_reply(call, result, &view))
        return;
    view.ttl_ms = redis_reply_integer(
        redis_reply_at(reply, 1)); /* of a wait that is too long */
    if (view.outcome != SESSION_OPEN) {
        finish(call, &view);
        return;
    }
    view.remaining_ms = lock_ms_left(call->store, view.ttl_ms, result->sent_ns);
    view.ttl_ms = redis_reply_integer(redis_reply_at(reply, 2));
    view.age_ms = redis_reply_integer(redis_reply_at(reply, 3));
    view.name = redis_reply_text(redis_reply_at(reply, 4), &len);
    struct session_lease_view *leases = read_leases(call, redis_reply_at(reply, 5),
                                                    result->sent_ns, &view.lease_count);
    struct session_loss_view *losses = read_losses(call, redis_reply_at(reply, 6),
                                                   &view.loss_count);
    view.leases = leases;
    view.losses = losses;
    finish(call, &view);
    for (size_t i = 0; i < view.lease_count; i++)
        lock_names_drop(leases[i].locks);
    for (size_t i = 0; i < view.loss_count; i++)
        lock_names_drop(losses[i].locks);
    free(leases);
    free(losses);
}

/* The ids that the client says it holds, each followed by a blank. */
static void join(char *out, const struct session_keep_alive *said)
{
    assert(said->held_count <= SESSION_HELD_MAX);
    for (size_t i = 0; i < said->held_count; i++) {
        memcpy(out, said->held[i], LEASE_ID_SIZE - 1);
        out[LEASE_ID_SIZE - 1] = ' ';
        out += LEASE_ID_SIZE;
    }
    *out = '\0';
}

void session_look(struct lock_store *store, const char *session_id,
                  const struct session_keep_alive *keep_alive, session_done *done, void *arg)
{
    static const struct session_keep_alive only_look = {0};
    struct session_call *call = call_new(store, session_id, done, arg);
    struct script_args args = {0};
    struct key session, leases, lost;
    struct key sessions = {.len = sizeof(KEY_SESSIONS) - 1, .text = KEY_SESSIONS};
    char held[SESSION_HELD_MAX * LEASE_ID_SIZE + 1];
    int64_t age_ms = 0;

    if (keep_alive != NULL)
        age_ms = (clock_ns() - keep_alive->received_ns) / CLOCK_NS_PER_MS;
    const struct session_keep_alive *said = keep_alive ? keep_alive : &only_look;
    join(held, said);
    key_for_id(&session, KEY_SESSION, session_id);
    key_for_id(&leases, KEY_SESSION_LEASES, session_id);
    key_for_id(&lost, KEY_SESSION_LOST, session_id);
    args_key(&args, &session);
    args_key(&args, &leases);
    args_key(&args, &lost);
    args_key(&args, &sessions);
    args_string(&args, session_id);
    args_number(&args, store->options.config->retry_window_ms);
    args_string(&args, keep_alive != NULL ? "1" : "0");
    args_number(&args, age_ms);
    args_number(&args, said->wait_ms);
    args_string(&args, said->says_held ? "1" : "0");
    args_string(&args, held);
    send_call(call, SCRIPT_SESSION_LOOK, &args, on_looked);
}

static void on_told(void *arg, const struct redis_result *result)
{
    (void)arg; /* told once more, should this have failed */
    (void)result;
}

void session_told(struct lock_store *store, const char *session_id,
                  const char (*lease_ids)[LEASE_ID_SIZE], size_t count)
{
    const char **argv = malloc((count + 2) * sizeof(*argv));
    size_t *lens = malloc((count + 2) * sizeof(*lens));
    struct key lost;

    assert(argv != NULL && lens != NULL);
    key_for_id(&lost, KEY_SESSION_LOST, session_id);
    argv[0] = "HDEL";
    lens[0] = 4;
    argv[1] = lost.text;
    lens[1] = lost.len;
    for (size_t i = 0; i < count; i++) {
        argv[i + 2] = lease_ids[i];
        lens[i + 2] = strlen(lease_ids[i]);
    }
    redis_command(store->options.redis, count + 2, argv, lens, on_told, NULL);
    free(argv);
    free(lens);
}

/* --- end ---------------------------------------------------------------------------------- */

static void send_end(struct session_call *call);

static void on_ended(void *arg, const struct redis_result *result)
{
    struct session_call *call = arg;
    struct session_view view;

    if (!begin_reply(call, result, &view))
        return;
    if (view.outcome == SESSION_RELEASED) {
        view.released = redis_reply_integer(redis_reply_at(result->reply, 1));
        if (redis_reply_integer(redis_reply_at(result->reply, 2)) > 0) {
            send_end(call);
            return;
        }
    }
    finish(call, &view);
}

static void send_end(struct session_call *call)
{
    struct script_args args = {0};
    struct key session;

    key_for_id(&session, KEY_SESSION, call->session_id);
    args_key(&args, &session);
    args_string(&args, call->session_id);
    args_number(&args, call->store->options.config->retry_window_ms);
    args_number(&args, END_BATCH);
    send_call(call, SCRIPT_SESSION_END, &args, on_ended);
}

void session_end(struct lock_store *store, const char *session_id, session_done *done,
                 void *arg)
{
    send_end(call_new(store, session_id, done, arg));
}

/* --- list --------------------------------------------------------------------------------- */

struct list_call {
    struct lock_store *store;
    session_list_done *done;
    void *arg;
};

enum { LIST_VALUES = 6 };

static void on_listed(void *arg, const struct redis_result *result)
{
    struct list_call *call = arg;
    const struct redisReply *page = redis_reply_at(result->reply, 2);
    struct session_list list = {.outcome = lock_outcome_of(result)};
    size_t len;

    list.count = redis_reply_count(page) / LIST_VALUES;
    struct session_list_entry *entries = calloc(list.count + 1, sizeof(*entries));
    assert(entries != NULL);
    for (size_t i = 0; i < list.count; i++) {
        size_t at = i * LIST_VALUES;
        entries[i].session_id = redis_reply_text(redis_reply_at(page, at), &len);
        entries[i].remaining_ms = redis_reply_integer(redis_reply_at(page, at + 1));
        entries[i].ttl_ms = redis_reply_integer(redis_reply_at(page, at + 2));
        entries[i].age_ms = redis_reply_integer(redis_reply_at(page, at + 3));
        entries[i].name = redis_reply_text(redis_reply_at(page, at + 4), &len);
        entries[i].lease_count = redis_reply_integer(redis_reply_at(page, at + 5));
    }
    list.entries = entries;
    const char *cursor = redis_reply_text(redis_reply_at(result->reply, 0), &len);
    int64_t skip = redis_reply_integer(redis_reply_at(result->reply, 1));
    if (list.outcome == LOCK_LOOKED && (strcmp(cursor, "0") != 0 || skip != 0))
        snprintf(list.next_cursor, sizeof(list.next_cursor), "%s.%" PRId64, cursor, skip);
    call->done(call->arg, &list);
    free(entries);
    free(call);
}

int session_list(struct lock_store *store, size_t limit, const char *cursor,
                 session_list_done *done, void *arg)
{
    struct script_args args = {0};
    struct key sessions = {.len = sizeof(KEY_SESSIONS) - 1, .text = KEY_SESSIONS};
    uint64_t from;
    size_t skip;
    char from_text[24];

    if (lock_parse_cursor(cursor, &from, &skip) != 0)
        return -1;
    struct list_call *call = calloc(1, sizeof(*call));
    assert(call != NULL);
    *call = (struct list_call){.store = store, .done = done, .arg = arg};
    args_key(&args, &sessions);
    snprintf(from_text, sizeof(from_text), "%" PRIu64, from);
    args_string(&args, from_text);
    args_number(&args, (int64_t)skip);
    args_number(&args, (int64_t)limit);
    args_send(store, SCRIPT_SESSION_LIST, &args, on_listed, call);
    return 0;
}
