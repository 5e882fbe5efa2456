/* What the files of the lock store share. */
#ifndef RLOCKD_STORAGE_LOCK_STORE_INTERNAL_H
#define RLOCKD_STORAGE_LOCK_STORE_INTERNAL_H

#include "server/pool.h"
#include "storage/keys.h"
#include "storage/lease_record.h"
#include "storage/lock_store.h"

struct withdrawal;

struct lock_store {
    struct lock_store_options options;
    uint64_t mark_count;
    int64_t up_since_ns;            /* when Redis became usable last */
    struct pool calls;              /* of lock_call_send() */
    struct withdrawal *withdrawals; /* not confirmed by Redis yet */
    struct timer retry_withdrawals;
};

enum { SCRIPT_ARGS_MAX = 24, SCRIPT_NUMBERS_MAX = 5 };

/* The arguments of one script call; they live where the caller keeps them. */
struct script_args {
    size_t count, key_count;
    const char *text[SCRIPT_ARGS_MAX];
    size_t lens[SCRIPT_ARGS_MAX];
    char numbers[SCRIPT_NUMBERS_MAX][24];
    size_t number_count;
};

void args_key(struct script_args *args, const struct key *key);
void args_text(struct script_args *args, const char *text, size_t len);
void args_string(struct script_args *args, const char *text);
void args_number(struct script_args *args, int64_t number);
void args_send(const struct lock_store *store, enum script script,
               const struct script_args *args, redis_done *done, void *arg);

/* Every key of a lock. The lock's own hash is the bare name. */
struct lock_keys {
    struct key name, counter, queue, channel;
};

void lock_keys_make(const struct lock_store *store, struct lock_keys *keys, const char *name);

/* The same, and what belongs to one lease of the lock. */
struct lease_keys {
    struct lock_keys lock;
    struct key record;
};

void lease_keys_make(const struct lock_store *store, struct lease_keys *keys, const char *name,
                     const char *lease_id);

/* Sends a script whose reply is about one lease. `ttl_ms`: of a lease that it grants. */
void lock_call_send(struct lock_store *store, enum script script,
                    const struct script_args *args, int64_t ttl_ms, lock_done *done, void *arg);

/* The ARGV of lib/request.lua: all of them for several locks, else without what is as usual at
 * the end. Each argument costs Redis a few per cent of the whole request. */
void args_request(struct script_args *args, const struct lock_store *store,
                  const struct lease *lease, const struct lease_record_text *record,
                  int64_t register_ms, bool registered);

/* When a lease that the watchdog has just renewed is due again: Redisson's third. */
int64_t watchdog_period_ms(const struct config *config);

/* What is left of `ms` that Redis counted some time after `sent_ns`, counted from sent_ns on.
 */
int64_t lock_ms_left(const struct lock_store *store, int64_t ms, int64_t sent_ns);
/* Copies a text of a reply; "" when it does not fit. */
void lock_copy_text(const struct redisReply *reply, char *out, size_t out_size);

/* multi_store.c: lock_try() of several. */
void multi_try(struct lock_store *store, const struct lease *lease, int64_t register_ms,
               bool registered, lock_done *done, void *arg);

/* lock_list.c */
/* Reads "<cursor of SCAN>.<answers to skip>"; "" is the start. Non-zero: it is neither. */
int lock_parse_cursor(const char *cursor, uint64_t *scan_cursor, size_t *skip)
    __attribute__((warn_unused_result));

/* withdraw.c */
/* Takes back what the request with this lease's mark did, by a script with the KEYS and ARGV of
 * withdraw.lua. `record`: which kind of key says what it did. `keeps_place`: see
 * lock_keep_place(). */
void withdraw_by(struct lock_store *store, enum script script, const char *record,
                 const struct lease *lease, bool keeps_place);
void withdrawals_release(struct lock_store *store);
void withdrawals_retry(void *store);

#endif
