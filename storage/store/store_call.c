/* The means by which every store asks Redis: scripts with their keys and arguments, names of
 * keys, texts of replies. */
#include "storage/store/store_call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/text.h"
#include "storage/store/store_internal.h"

/* The keys of a call stand here until the call is sent. */
struct store_call {
    struct store *store;
    enum script script;
    bool is_open;
    size_t keys_len;
    struct script_args args;
    char keys[SCRIPT_KEYS_MAX * KEY_SIZE];
};

/* --- filling a call ----------------------------------------------------------------------- */

struct store_call *store_call_new(struct store *store)
{
    struct store_call *call = malloc(sizeof(*call));

    if (call == NULL)
        return NULL;
    call->store = store;
    call->is_open = false;
    return call;
}

void store_call_free(struct store_call *call)
{
    free(call);
}

struct store_call *call_begin(struct store *store, enum script script)
{
    struct store_call *call = store->call;

    assert(!call->is_open);
    call->is_open = true;
    call->script = script;
    call->keys_len = 0;
    args_init(&call->args);
    return call;
}

struct key_base call_object(struct store_call *call, const char *name)
{
    char *text = call->keys + call->keys_len;

    assert(call->keys_len + KEY_SIZE <= sizeof(call->keys));
    size_t len = store_key_name(call->store, name, text, KEY_SIZE);
    call->keys_len += len + 1;
    return (struct key_base){text, len};
}

struct key_base call_base(const char *text)
{
    return (struct key_base){text, strlen(text)};
}

void call_key(struct store_call *call, size_t at, enum key_kind kind, struct key_base of,
              const char *id)
{
    char *text = call->keys + call->keys_len;

    if (kind == KEY_OBJECT) {
        args_key(&call->args, at, of.text, of.len);
        return;
    }
    assert(call->keys_len + KEY_SIZE <= sizeof(call->keys));
    size_t len = key_write(text, kind, of.text, of.len, id);
    call->keys_len += len + 1;
    args_key(&call->args, at, text, len);
}

void call_fixed_key(struct store_call *call, size_t at, const char *key)
{
    args_key(&call->args, at, key, strlen(key));
}

void call_text(struct store_call *call, size_t at, const char *text, size_t len)
{
    args_text(&call->args, at, text, len);
}

void call_string(struct store_call *call, size_t at, const char *text)
{
    args_string(&call->args, at, text);
}

void call_number(struct store_call *call, size_t at, int64_t number)
{
    args_number(&call->args, at, number);
}

void call_flag(struct store_call *call, size_t at, bool flag)
{
    if (flag)
        args_string(&call->args, at, "1");
}

void call_send(struct store_call *call, redis_done *done, void *arg)
{
    const struct script_call script = script_call_make(call->script, &call->args);

    call->is_open = false;
    topology_script(call->store->options.topology, &script, done, arg);
}

void call_send_to(struct store_call *call, struct topology_node *node, redis_done *done,
                  void *arg)
{
    const struct script_call script = script_call_make(call->script, &call->args);

    call->is_open = false;
    topology_node_script(call->store->options.topology, node, &script, done, arg);
}

const struct script_args *call_close(struct store_call *call, struct store **store,
                                     enum script *script)
{
    call->is_open = false;
    *store = call->store;
    *script = call->script;
    return &call->args;
}

int64_t call_lost_ms(const struct store_call *call, struct key_base of)
{
    const struct store *store = call->store;
    const struct redis_tag tag = redis_tag_of(of.text, of.len);
    const struct topology_node *node = topology_node_of(store->options.topology, &tag);

    int64_t now_ns = loop_now_ns(store->options.loop);

    if (node == NULL) /* no server is known yet */
        return REDIS_BACK_MS;
    const struct redis_server *server = topology_node_server(node);
    if (now_ns - server->up_since_ns >= REDIS_BACK_MS * CLOCK_NS_PER_MS)
        return -1;
    return (now_ns - server->lost_ns) / CLOCK_NS_PER_MS;
}

/* --- names and replies -------------------------------------------------------------------- */

size_t store_key_name(const struct store *store, const char *name, char *out, size_t out_size)
{
    const char *prefix = store->options.config->key_prefix;
    size_t prefix_len = strlen(prefix), name_len = strlen(name);

    assert(prefix_len + name_len < out_size);
    memcpy(out, prefix, prefix_len);
    memcpy(out + prefix_len, name, name_len + 1);
    return prefix_len + name_len;
}

int64_t watchdog_period_ms(const struct config *config)
{
    return config->watchdog_timeout_ms / 3;
}

int64_t store_ms_left(int64_t ms, int64_t sent_ns)
{
    int64_t passed_ns = clock_ns() - sent_ns;

    if (ms < 0)
        return -1; /* no TTL, or gone */
    int64_t left_ms = ms -
                      (passed_ns > 0 ? passed_ns + CLOCK_NS_PER_MS - 1 : 0) / CLOCK_NS_PER_MS;
    return left_ms > 0 ? left_ms : 0;
}

uint32_t call_process(const struct redis_server *server)
{
    size_t len = server != NULL ? strlen(server->run_id) : 0;

    if (len == 0)
        return 0;
    uint32_t hash = text_hash(server->run_id, len);
    return hash != 0 ? hash : 1;
}

void lock_copy_text(const struct redis_value *reply, char *out, size_t out_size)
{
    size_t len;
    const char *text = value_text(reply, &len);

    if (len >= out_size)
        len = 0;
    memcpy(out, text, len);
    out[len] = '\0';
}
