/* The keys and channels that belong to a lock, by Redisson's rules and by ours. */
#ifndef RLOCKD_STORAGE_KEYS_H
#define RLOCKD_STORAGE_KEYS_H

#include <stddef.h>

enum {
    KEY_NAME_MAX = 768, /* a prefix of 256 bytes and a name of 512 */
    KEY_SIZE = KEY_NAME_MAX + 80
};

/* A key with its NUL. */
struct key {
    size_t len;
    char text[KEY_SIZE];
};

/* `prefix`:{`name`}, or `prefix`:`name` when the name has a brace of its own: Redisson's
 * RedissonObject.prefixName(). */
void key_for_lock(struct key *key, const char *prefix, const char *name, size_t name_len);
/* The channel of a count-down latch: its name is always in braces. */
void key_for_latch_channel(struct key *key, const char *name, size_t name_len);
/* The channel of one who waits for a fair lock. */
void key_for_fair_channel(struct key *key, const char *name, size_t name_len,
                          const char *lease_id);
/* The expiring permits of a semaphore: Redisson's RedissonObject.suffixName(). */
void key_for_timeouts(struct key *key, const char *name, size_t name_len);
/* `prefix`:`id`. */
void key_for_id(struct key *key, const char *prefix, const char *id);

#define KEY_COUNTER "redisson_lock_token"
#define KEY_CHANNEL "redisson_lock__channel"
#define KEY_READ_WRITE_CHANNEL "redisson_rwlock"
#define KEY_FAIR_QUEUE "redisson_lock_queue"
#define KEY_FAIR_TIMES "redisson_lock_timeout"
#define KEY_SEMAPHORE_CHANNEL "redisson_sc"
#define KEY_WAITERS "rlockd:waiters"
#define KEY_FORCED "rlockd:forced"
#define KEY_LEASE "rlockd:lease"
#define KEY_IDEMPOTENCY "rlockd:idempotency"
#define KEY_SESSION "rlockd:session"
#define KEY_SESSION_LEASES "rlockd:session-leases"
#define KEY_SESSION_LOST "rlockd:session-lost"
#define KEY_SESSIONS "rlockd:sessions"
#define KEY_DUE "rlockd:due"
/* Channels of our own. */
#define CHANNEL_LEASES "rlockd:leases"
#define CHANNEL_SESSIONS "rlockd:sessions"
#define CHANNEL_WORKER "rlockd:worker"

#endif
