#include "storage/multi_store.h"

#include <stdlib.h>
#include <string.h>

#include "storage/lock_store_internal.h"

void multi_try(struct lock_store *store, const struct lease *lease, int64_t register_ms,
               bool registered, lock_done *done, void *arg)
{
    static const struct key no_lock = {0};
    struct script_args args = {0};
    struct lease_record_text record_text;
    struct key record;
    size_t len;
    char *names = lock_names_join(lease->locks, store->options.config->key_prefix, &len);

    key_for_id(&record, KEY_LEASE, lease->id);
    args_key(&args, &record);
    lease_record_write(&record_text, lease, &no_lock);
    args_request(&args, store, lease, &record_text, register_ms, registered);
    args_text(&args, names, len);
    args_number(&args, (int64_t)lease->locks->in_the_way);
    lock_call_send(store, SCRIPT_MULTI_ACQUIRE, &args, lease->ttl_ms, done, arg);
    free(names);
}

void multi_renew(struct lock_store *store, const struct lease *lease, lock_done *done,
                 void *arg)
{
    struct script_args args = {0};
    struct key record;

    key_for_id(&record, KEY_LEASE, lease->id);
    args_key(&args, &record);
    args_string(&args, lease->id);
    args_number(&args, lease->ttl_ms);
    args_number(&args, store->options.config->retry_window_ms);
    args_string(&args, lease->watchdog ? "1" : "");
    args_number(&args, watchdog_period_ms(store->options.config));
    lock_call_send(store, SCRIPT_MULTI_RENEW, &args, lease->ttl_ms, done, arg);
}

static void send(struct lock_store *store, enum script script, const struct lease *lease,
                 const char *flag, lock_done *done, void *arg)
{
    struct script_args args = {0};
    struct key record;

    key_for_id(&record, KEY_LEASE, lease->id);
    args_key(&args, &record);
    args_string(&args, lease->id);
    args_number(&args, store->options.config->retry_window_ms);
    args_string(&args, flag);
    lock_call_send(store, script, &args, 0, done, arg);
}

void multi_release(struct lock_store *store, const struct lease *lease, lock_done *done,
                   void *arg)
{
    send(store, SCRIPT_MULTI_RELEASE, lease, "", done, arg);
}

void multi_look(struct lock_store *store, const struct lease *lease, lock_done *done, void *arg)
{
    send(store, SCRIPT_MULTI_LOOK, lease, "", done, arg);
}

void multi_look_names(struct lock_store *store, const struct lease *lease, lock_done *done,
                      void *arg)
{
    send(store, SCRIPT_MULTI_LOOK, lease, "1", done, arg);
}

struct lock_names *multi_names(const struct lock_store *store, const struct lock_result *result)
{
    size_t count = redis_reply_count(result->reply), len;

    if (count == 0)
        return NULL;
    const char *names = redis_reply_text(redis_reply_at(result->reply, count - 1), &len);
    return lock_names_parse(names, strlen(store->options.config->key_prefix));
}

void multi_numbers(const char *text, int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *end;
        numbers[i] = strtoll(text, &end, 10);
        text = end;
    }
}

void multi_holds(const struct lock_result *result, struct multi_hold *holds, size_t count)
{
    int64_t tokens[LOCKS_MAX], counts[LOCKS_MAX];
    size_t len;

    multi_numbers(redis_reply_text(redis_reply_at(result->reply, 1), &len), tokens, count);
    multi_numbers(redis_reply_text(redis_reply_at(result->reply, 4), &len), counts, count);
    for (size_t i = 0; i < count; i++)
        holds[i] = (struct multi_hold){.fencing_token = tokens[i], .hold_count = counts[i]};
}
