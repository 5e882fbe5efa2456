/* Holders in answers. */
#include "handlers/holders.h"

static void add_text(json_t *json, const char *name, const char *text)
{
    if (text[0] != '\0')
        json_object_set_new(json, name, json_string(text));
}

void holder_add_caller(json_t *json, const char *caller)
{
    add_text(json, "caller", caller);
}

void holder_add_held(json_t *json, int64_t held_ms)
{
    if (held_ms >= 0)
        json_object_set_new(json, "held_ms", json_integer(held_ms));
}

/* Redisson writes nowhere when a Java client got the lock. */
static void add_held_of(json_t *json, const struct handler_context *context, const char *lock,
                        const struct lock_holder *holder)
{
    (void)lock;
    if (lock_holder_is_ours(holder->field) && holder->hold_count > 0)
        holder_add_held(json, store_held_ms(context->store, holder->fencing_token));
}

json_t *holder_json(const struct handler_context *context, const char *lock,
                    const struct lock_holder *holder)
{
    char lease_id[LEASE_ID_SIZE];
    json_t *json = json_object();

    if (holder->owner[0] == '\0' && lock_holder_is_lease(holder->field, lease_id))
        add_text(json, "lease_id", lease_id);
    else if (holder->session_id[0] == '\0')
        json_object_set_new(json, "redisson_holder",
                            json_stringn(holder->field, lock_holder_len(holder->field)));
    if (kind_row_of(holder->kind)->shares_holder)
        add_text(json, "kind", holder->kind);
    if (holder->hold_count > 0)
        json_object_set_new(json, "hold_count", json_integer(holder->hold_count));
    add_text(json, "session_id", holder->session_id);
    add_text(json, "session_name", holder->session_name);
    add_text(json, "owner", holder->owner);
    add_text(json, "note", holder->note);
    holder_add_caller(json, holder->caller);
    add_held_of(json, context, lock, holder);
    return json;
}
