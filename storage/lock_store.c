#include "storage/lock_store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/text.h"
#include "storage/lock_store_internal.h"

/* --- arguments of scripts ----------------------------------------------------------------- */

void args_text(struct script_args *args, const char *text, size_t len)
{
    assert(args->count < sizeof(args->text) / sizeof(args->text[0]));
    args->text[args->count] = text;
    args->lens[args->count++] = len;
}

void args_key(struct script_args *args, const struct key *key)
{
    assert(args->count == args->key_count); /* keys come first */
    args_text(args, key->text, key->len);
    args->key_count++;
}

void args_string(struct script_args *args, const char *text)
{
    args_text(args, text, strlen(text));
}

void args_number(struct script_args *args, int64_t number)
{
    assert(args->number_count < sizeof(args->numbers) / sizeof(args->numbers[0]));
    char *text = args->numbers[args->number_count++];
    args_text(args, text, text_format_int64(text, number));
}

void args_send(const struct lock_store *store, enum script script,
               const struct script_args *args, redis_done *done, void *arg)
{
    redis_script(store->options.redis, script, args->key_count, args->count, args->text,
                 args->lens, done, arg);
}

/* --- names, holders, results -------------------------------------------------------------- */

size_t lock_store_key_name(const struct lock_store *store, const char *name, char *out,
                           size_t out_size)
{
    const char *prefix = store->options.config->key_prefix;
    size_t prefix_len = strlen(prefix), name_len = strlen(name);

    assert(prefix_len + name_len < out_size);
    memcpy(out, prefix, prefix_len);
    memcpy(out + prefix_len, name, name_len + 1);
    return prefix_len + name_len;
}

static void lock_key_make(const struct lock_store *store, struct key *key, const char *name)
{
    key->len = lock_store_key_name(store, name, key->text, sizeof(key->text));
}

void lock_keys_make(const struct lock_store *store, struct lock_keys *keys, const char *name)
{
    struct key *lock = &keys->name;

    lock_key_make(store, lock, name);
    key_for_lock(&keys->counter, KEY_COUNTER, lock->text, lock->len);
    key_for_lock(&keys->channel, KEY_CHANNEL, lock->text, lock->len);
    key_for_lock(&keys->queue, KEY_FAIR_QUEUE, lock->text, lock->len);
}

void lease_keys_make(const struct lock_store *store, struct lease_keys *keys, const char *name,
                     const char *lease_id)
{
    lock_keys_make(store, &keys->lock, name);
    key_for_id(&keys->record, KEY_LEASE, lease_id);
}

int64_t watchdog_period_ms(const struct config *config)
{
    return config->watchdog_timeout_ms / 3;
}

bool lock_is_holder(const char *field)
{
    static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx:";

    for (size_t i = 0; shape[i] != '\0'; i++) {
        if (shape[i] == 'x' ? strchr("0123456789abcdefABCDEF", field[i]) == NULL || !field[i]
                            : field[i] != shape[i])
            return false;
    }
    return true;
}

size_t lock_holder_len(const char *holder)
{
    static const char writer[] = ":write"; /* Redisson's RedissonWriteLock.getLockName() */
    size_t len = strlen(holder), mark_len = sizeof(writer) - 1;

    return len > mark_len && strcmp(holder + len - mark_len, writer) == 0 ? len - mark_len
                                                                          : len;
}

bool lock_holder_is_lease(const char *holder, char lease_id[LEASE_ID_SIZE])
{
    const char *thread = holder + LEASE_ID_SIZE - 1;

    if (!lock_is_holder(holder) || lock_holder_len(holder) != LEASE_ID_SIZE + 1 ||
        (thread[1] != '0' && thread[1] != 'm'))
        return false;
    memcpy(lease_id, holder, LEASE_ID_SIZE - 1);
    lease_id[LEASE_ID_SIZE - 1] = '\0';
    return true;
}

int64_t lock_ms_left(const struct lock_store *store, int64_t ms, int64_t sent_ns)
{
    int64_t passed_ns = loop_now_ns(store->options.loop) - sent_ns;

    if (ms < 0)
        return -1; /* no TTL, or gone */
    int64_t left_ms = ms -
                      (passed_ns > 0 ? passed_ns + CLOCK_NS_PER_MS - 1 : 0) / CLOCK_NS_PER_MS;
    return left_ms > 0 ? left_ms : 0;
}

void lock_copy_text(const struct redisReply *reply, char *out, size_t out_size)
{
    size_t len;
    const char *text = redis_reply_text(reply, &len);

    if (len >= out_size)
        len = 0;
    memcpy(out, text, len);
    out[len] = '\0';
}

enum lock_outcome lock_outcome_of(const struct redis_result *result)
{
    switch (result->outcome) {
    case REDIS_DONE:
        return LOCK_LOOKED;
    case REDIS_UNKNOWN:
        return LOCK_UNKNOWN;
    case REDIS_REFUSED:
        break;
    }
    if (result->refusal == REDIS_REFUSED_WRONG_TYPE)
        return LOCK_WRONG_KIND;
    if (result->refusal == REDIS_REFUSED_OUT_OF_MEMORY)
        return LOCK_OUT_OF_MEMORY;
    return LOCK_NOT_EXECUTED;
}

/* --- a call and its reply ----------------------------------------------------------------- */

struct lock_call {
    struct lock_store *store;
    lock_done *done;
    void *arg;
    int64_t ttl_ms;
};

struct reply_word {
    const char *word;
    enum lock_outcome outcome;
    enum metric metric; /* METRIC_COUNT: not counted */
};

static const struct reply_word reply_words[] = {
    {"granted", LOCK_GRANTED, METRIC_GRANTS},
    {"held", LOCK_HELD, METRIC_COUNT},
    {"busy", LOCK_BUSY, METRIC_COUNT},
    {"released", LOCK_RELEASED, METRIC_RELEASES},
    {"unlocked", LOCK_UNLOCKED, METRIC_FORCED},
    {"free", LOCK_FREE, METRIC_COUNT},
    {"stale", LOCK_STALE, METRIC_COUNT},
    {"ended", LOCK_ENDED, METRIC_COUNT},
    {"session-ended", LOCK_SESSION_ENDED, METRIC_COUNT},
    {"reused", LOCK_REUSED, METRIC_COUNT},
    {"wrong-kind", LOCK_WRONG_KIND, METRIC_COUNT},
    {"upgrade", LOCK_UPGRADE, METRIC_COUNT},
};

static const struct reply_word *find_reply_word(const struct redisReply *reply)
{
    size_t len;
    const char *word = redis_reply_text(redis_reply_at(reply, 0), &len);

    for (size_t i = 0; i < sizeof(reply_words) / sizeof(reply_words[0]); i++)
        if (strcmp(reply_words[i].word, word) == 0)
            return &reply_words[i];
    return NULL;
}

static void read_hold(struct lock_result *out, const struct lock_call *call,
                      const struct redis_result *result)
{
    struct lease_record record;
    size_t len;
    const char *text = redis_reply_text(redis_reply_at(result->reply, 3), &len);

    lease_record_parse(&record, text, len);
    out->fencing_token = redis_reply_integer(redis_reply_at(result->reply, 1));
    out->remaining_ms = lock_ms_left(
        call->store, redis_reply_integer(redis_reply_at(result->reply, 2)), result->sent_ns);
    out->ttl_ms = out->outcome == LOCK_GRANTED ? call->ttl_ms : record.ttl_ms;
    out->hold_count = redis_reply_integer(redis_reply_at(result->reply, 4));
    out->watchdog = record.watchdog;
    memcpy(out->kind, record.kind, sizeof(out->kind));
    memcpy(out->note, record.note, sizeof(out->note));
    memcpy(out->session_id, record.session_id, sizeof(out->session_id));
    memcpy(out->owner, record.owner, sizeof(out->owner));
}

/* The bare replies of the common case: a fencing token for a grant, the holds left for a
 * release. */
static bool read_bare_reply(struct lock_result *out, const struct lock_call *call,
                            const struct redis_result *result)
{
    size_t len;
    const char *token = redis_reply_text(result->reply, &len);

    if (redis_reply_is_integer(result->reply)) {
        out->outcome = LOCK_RELEASED;
        out->hold_count = redis_reply_integer(result->reply);
        metrics_add(call->store->options.metrics, METRIC_RELEASES, 1);
        return true;
    }
    if (!text_parse_int64(token, &out->fencing_token))
        return false;
    out->outcome = LOCK_GRANTED;
    out->remaining_ms = lock_ms_left(call->store, call->ttl_ms, result->sent_ns);
    out->ttl_ms = call->ttl_ms;
    out->hold_count = 1;
    metrics_add(call->store->options.metrics, METRIC_GRANTS, 1);
    return true;
}

static void read_reply(struct lock_result *out, const struct lock_call *call,
                       const struct redis_result *result)
{
    if (read_bare_reply(out, call, result))
        return;
    const struct reply_word *row = find_reply_word(result->reply);
    if (row == NULL) { /* not one of our scripts' replies: something else sits there */
        out->outcome = LOCK_UNKNOWN;
        return;
    }
    out->outcome = row->outcome;
    out->reply = result->reply;
    if (row->metric != METRIC_COUNT)
        metrics_add(call->store->options.metrics, row->metric, 1);
    if (row->outcome == LOCK_GRANTED || row->outcome == LOCK_HELD)
        read_hold(out, call, result);
    else if (row->outcome == LOCK_RELEASED)
        out->hold_count = redis_reply_integer(redis_reply_at(result->reply, 1));
    else if (row->outcome == LOCK_ENDED || row->outcome == LOCK_SESSION_ENDED)
        lock_copy_text(redis_reply_at(result->reply, 1), out->reason, sizeof(out->reason));
    else if (row->outcome == LOCK_BUSY) {
        out->remaining_ms = lock_ms_left(call->store,
                                         redis_reply_integer(redis_reply_at(result->reply, 1)),
                                         result->sent_ns);
        lock_copy_text(redis_reply_at(result->reply, 2), out->holder.field,
                       sizeof(out->holder.field));
        out->in_the_way = (size_t)redis_reply_integer(redis_reply_at(result->reply, 3));
    } else if (row->outcome == LOCK_WRONG_KIND || row->outcome == LOCK_UPGRADE) {
        out->in_the_way = (size_t)redis_reply_integer(redis_reply_at(result->reply, 1));
    }
}

static void on_reply(void *arg, const struct redis_result *result)
{
    struct lock_call *call = arg;
    struct lock_result out = {.outcome = lock_outcome_of(result), .remaining_ms = -1};

    if (result->outcome == REDIS_DONE)
        read_reply(&out, call, result);
    call->done(call->arg, &out);
    pool_give(&call->store->calls, call);
}

void lock_call_send(struct lock_store *store, enum script script,
                    const struct script_args *args, int64_t ttl_ms, lock_done *done, void *arg)
{
    struct lock_call *call = pool_take(&store->calls);

    assert(call != NULL);
    *call = (struct lock_call){.store = store, .done = done, .arg = arg, .ttl_ms = ttl_ms};
    args_send(store, script, args, on_reply, call);
}

/* --- operations --------------------------------------------------------------------------- */

static const char *const kind_names[LOCK_KIND_COUNT] = {[LOCK_KIND_LOCK] = "lock",
                                                        [LOCK_KIND_FAIR] = "fair",
                                                        [LOCK_KIND_READ] = "read",
                                                        [LOCK_KIND_WRITE] = "write"};

const char *lock_kind_name(enum lock_kind kind)
{
    return kind_names[kind];
}

bool lock_kind_find(const char *name, enum lock_kind *kind)
{
    for (int i = 0; i < LOCK_KIND_COUNT; i++) {
        if (strcmp(kind_names[i], name) == 0) {
            *kind = (enum lock_kind)i;
            return true;
        }
    }
    return false;
}

void args_request(struct script_args *args, const struct lock_store *store,
                  const struct lease *lease, const struct lease_record_text *record,
                  int64_t register_ms, bool registered)
{
    static const char *const modes[] = {
        [LEASE_NEW] = "new", [LEASE_RECORDED] = "record", [LEASE_MADE] = "made"};
    const struct config *config = store->options.config;
    bool has_more = lease->session_id[0] != '\0' || lease->locks != NULL;
    bool is_usual = lease->mode == LEASE_RECORDED && !registered && !has_more;
    /* -1: and it leaves no place to anybody. */
    int64_t wait_ms = register_ms == 0 && lease->once ? -1 : register_ms;

    args_string(args, lease->id);
    args_number(args, lease->ttl_ms);
    args_text(args, record->text, record->len);
    args_number(args, lease->ttl_ms + config->retry_window_ms);
    if (wait_ms != 0 || !is_usual)
        args_number(args, wait_ms);
    if (!is_usual)
        args_string(args, modes[lease->mode]);
    if (registered || has_more)
        args_string(args, registered ? "1" : "");
    if (has_more)
        args_number(args, lease->watchdog ? watchdog_period_ms(config) : lease->ttl_ms);
}

void lock_try(struct lock_store *store, const struct lease *lease, int64_t register_ms,
              bool registered, lock_done *done, void *arg)
{
    static const enum script scripts[LOCK_KIND_COUNT] = {[LOCK_KIND_LOCK] = SCRIPT_ACQUIRE,
                                                         [LOCK_KIND_FAIR] = SCRIPT_FAIR_ACQUIRE,
                                                         [LOCK_KIND_READ] = SCRIPT_RW_ACQUIRE,
                                                         [LOCK_KIND_WRITE] = SCRIPT_RW_ACQUIRE};
    struct script_args args = {0};
    struct lease_record_text record;
    struct key lock, counter, queue;

    if (lease->locks != NULL) {
        multi_try(store, lease, register_ms, registered, done, arg);
        return;
    }
    lock_key_make(store, &lock, lease->name);
    key_for_lock(&counter, KEY_COUNTER, lock.text, lock.len);
    key_for_lock(&queue, KEY_FAIR_QUEUE, lock.text, lock.len);
    lease_record_write(&record, lease, &lock);
    args_key(&args, &lock);
    args_key(&args, &counter);
    args_key(&args, &queue);
    args_request(&args, store, lease, &record, register_ms, registered);
    lock_call_send(store, scripts[lease->kind], &args, lease->ttl_ms, done, arg);
}

void lock_renew(struct lock_store *store, const struct lease *lease, lock_done *done, void *arg)
{
    struct script_args args = {0};
    struct lease_keys keys;

    lease_keys_make(store, &keys, lease->name, lease->id);
    args_key(&args, &keys.lock.name);
    args_key(&args, &keys.lock.counter);
    args_key(&args, &keys.record);
    args_string(&args, lease->id);
    args_number(&args, lease->ttl_ms);
    args_number(&args, store->options.config->retry_window_ms);
    args_string(&args, lease->watchdog ? "1" : "");
    args_number(&args, watchdog_period_ms(store->options.config));
    lock_call_send(store, SCRIPT_RENEW, &args, lease->ttl_ms, done, arg);
}

void lock_release(struct lock_store *store, const struct lease *lease, lock_done *done,
                  void *arg)
{
    struct script_args args = {0};
    struct key lock, channel;

    lock_key_make(store, &lock, lease->name);
    key_for_lock(&channel, KEY_CHANNEL, lock.text, lock.len);
    args_key(&args, &lock);
    args_string(&args, lease->id);
    args_text(&args, channel.text, channel.len);
    args_number(&args, store->options.config->retry_window_ms);
    lock_call_send(store, SCRIPT_RELEASE, &args, 0, done, arg);
}

void lock_force(struct lock_store *store, const char *name, const char *only, lock_done *done,
                void *arg)
{
    struct script_args args = {0};
    struct lock_keys keys;
    struct key forced;

    lock_keys_make(store, &keys, name);
    key_for_lock(&forced, KEY_FORCED, keys.name.text, keys.name.len);
    args_key(&args, &keys.name);
    args_key(&args, &keys.counter);
    args_key(&args, &forced);
    args_number(&args, store->options.config->retry_window_ms);
    args_string(&args, only);
    lock_call_send(store, SCRIPT_FORCE_UNLOCK, &args, 0, done, arg);
}

/* --- life --------------------------------------------------------------------------------- */

void lock_store_mark(struct lock_store *store, char mark[LOCK_MARK_SIZE])
{
    size_t len = strlen(store->options.worker_id);

    assert(len + 1 + TEXT_INT64_SIZE <= LOCK_MARK_SIZE);
    memcpy(mark, store->options.worker_id, len);
    mark[len] = '.';
    text_format_int64(mark + len + 1, (int64_t)++store->mark_count);
}

struct lock_store *lock_store_new(const struct lock_store_options *options)
{
    struct lock_store *store = calloc(1, sizeof(*store));

    if (store == NULL)
        return NULL;
    store->options = *options;
    pool_init(&store->calls, sizeof(struct lock_call));
    store->retry_withdrawals = (struct timer){.fire = withdrawals_retry, .arg = store};
    return store;
}

void lock_store_free(struct lock_store *store)
{
    timer_cancel(loop_timers(store->options.loop), &store->retry_withdrawals);
    withdrawals_release(store);
    pool_release(&store->calls);
    free(store);
}
