/* The names that a new connection tries its permissions on. */
#include "storage/store/lock_probe.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* The keys of each home are in one slot, and stand together in enum key_kind. */
static const enum key_kind first_keys[LOCK_PROBE_HOMES + 1] = {KEY_OBJECT, KEY_SET, KEY_SESSION,
                                                               KEY_SESSIONS, LOCK_PROBE_KEYS};

static bool is_of_object(enum key_kind kind)
{
    return kind < KEY_SET || (kind >= LOCK_PROBE_KEYS && kind != CHANNEL_WORKER);
}

void lock_probe_make(struct lock_probe *probe, const char *key_prefix, const char *worker_id)
{
    char name[KEY_NAME_MAX + 1];
    int name_len = snprintf(name, sizeof(name), "%srlockd:probe:%s", key_prefix, worker_id);
    size_t channels = 0;

    assert(name_len > 0 && name_len <= KEY_NAME_MAX);
    for (enum key_kind kind = 0; kind < KEY_KINDS; kind++) {
        const char *of = is_of_object(kind) ? name : worker_id;
        key_make(&probe->keys[kind], kind, of, strlen(of), worker_id);
        if (kind < LOCK_PROBE_KEYS)
            probe->key_names[kind] = probe->keys[kind].text;
        else if (kind != CHANNEL_FAIR) /* Redisson's clients use it as CHANNEL_LOCK */
            probe->channel_names[channels++] = probe->keys[kind].text;
    }
    probe->channel_names[channels++] = CHANNEL_LEASES;
    probe->channel_names[channels++] = CHANNEL_SESSIONS;
    for (size_t i = 0; i < LOCK_PROBE_HOMES; i++)
        probe->homes[i] = (struct redis_probe_keys){.names = &probe->key_names[first_keys[i]],
                                                    .count = first_keys[i + 1] - first_keys[i]};
    probe->probe = (struct redis_probe){.keys = probe->homes,
                                        .slot_count = LOCK_PROBE_HOMES,
                                        .channels = probe->channel_names,
                                        .channel_count = channels,
                                        .layout_key = KEY_MARKER,
                                        .layout = KEY_LAYOUT};
}

const char *lock_probe_heartbeat_channel(const struct lock_probe *probe)
{
    return probe->keys[CHANNEL_WORKER].text;
}
