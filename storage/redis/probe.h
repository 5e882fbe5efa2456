/* What a new connection tries, to check the permissions of its user and the layout of the
 * data. */
#ifndef RLOCKD_STORAGE_REDIS_PROBE_H
#define RLOCKD_STORAGE_REDIS_PROBE_H

#include <stddef.h>

/* Keys of one slot, at least one. */
struct redis_probe_keys {
    const char *const *names;
    size_t count;
};

/* probe.lua runs on the keys of each slot, one slot after the other, and once on the channels.
 */
struct redis_probe {
    const struct redis_probe_keys *keys;
    size_t slot_count;
    const char *const *channels;
    size_t channel_count;
    /* A hash. If it has a field `layout`, no connection is made where that is not `layout`.
     * NULL: it is not known yet. */
    const char *layout_key;
    int layout;
};

#endif
