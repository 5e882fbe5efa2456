/* The names that a new connection tries its permissions on. */
#ifndef RLOCKD_STORAGE_STORE_LOCK_PROBE_H
#define RLOCKD_STORAGE_STORE_LOCK_PROBE_H

#include "storage/store/key.h"
#include "storage/redis/script_call.h"

#define LOCK_PROBE_KEYS CHANNEL_LOCK /* kinds of keys come before those of channels */

enum {
    LOCK_PROBE_HOMES = 4, /* of an object, a set's names, a session, the index */
    LOCK_PROBE_CHANNELS = KEY_KINDS - CHANNEL_LOCK + 2
};

struct lock_probe {
    struct key keys[KEY_KINDS];
    const char *key_names[LOCK_PROBE_KEYS];
    const char *channel_names[LOCK_PROBE_CHANNELS];
    struct redis_probe_keys homes[LOCK_PROBE_HOMES];
    struct redis_probe probe;
};

/* Names like those of a lock with the operator's prefix, since permissions may hang on the
 * prefix. `probe` points into itself: it must not move. */
void lock_probe_make(struct lock_probe *probe, const char *key_prefix, const char *worker_id);
/* The channel of this worker alone. */
const char *lock_probe_heartbeat_channel(const struct lock_probe *probe);

#endif
