/* A script that a store sends: KEYS and ARGV by the names that the script gives them
 * (build/gen/script_args.h), keys by storage/store/key.h. */
#ifndef RLOCKD_STORAGE_STORE_STORE_CALL_H
#define RLOCKD_STORAGE_STORE_STORE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script_args.h"
#include "storage/store/key.h"
#include "storage/store/lease.h"
#include "storage/redis/call.h"

struct config;
struct store;
struct store_call;
struct topology_node;

/* The base that keys are made of: the name of an object with the operator's prefix, or an id.
 */
struct key_base {
    const char *text;
    size_t len;
};

/* Begins a call. One call at a time is filled, and must be sent. */
struct store_call *call_begin(struct store *store, enum script script);
/* The name of an object as clients say it. */
struct key_base call_object(struct store_call *call, const char *name);
/* An id, or a name that has its prefix already. It must stay until the call is sent. */
struct key_base call_base(const char *text);
/* `id`: see key_write(). */
void call_key(struct store_call *call, size_t at, enum key_kind kind, struct key_base of,
              const char *id);
/* A key with a constant name. */
void call_fixed_key(struct store_call *call, size_t at, const char *key);
/* The texts must stay until the call is sent. */
void call_text(struct store_call *call, size_t at, const char *text, size_t len);
void call_string(struct store_call *call, size_t at, const char *text);
void call_number(struct store_call *call, size_t at, int64_t number);
/* Sets "1" for true, an empty text for false. */
void call_flag(struct store_call *call, size_t at, bool flag);
/* Sends the script to where its keys are. `done` is called exactly once, and never before this
 * returns. */
void call_send(struct store_call *call, redis_done *done, void *arg);
/* The same, but to this node of the topology alone: see topology_node_script(). */
void call_send_to(struct store_call *call, struct topology_node *node, redis_done *done,
                  void *arg);

/* Ends the filling of a call, for look_turns.c: its KEYS and ARGV stay until the next
 * call_begin(). */
const struct script_args *call_close(struct store_call *call, struct store **store,
                                     enum script *script);

/* Ms since this worker lost the Redis that keeps this object; -1: it is back, for REDIS_BACK_MS
 * or longer. */
int64_t call_lost_ms(const struct store_call *call, struct key_base of);

/* When a lease that the watchdog has just renewed is due again: Redisson's third. */
int64_t watchdog_period_ms(const struct config *config);
/* `ms` is a TTL from a reply to a command that was sent at `sent_ns` (clock_ns()). Returns the
 * ms that are left for sure now, also where this worker has stood still within its turn; -1: no
 * TTL. */
int64_t store_ms_left(int64_t ms, int64_t sent_ns);
/* A number for a Redis process, which another one will hardly have; 0: it is not known, as
 * where `server` is NULL. */
uint32_t call_process(const struct redis_server *server);
/* Copies a text of a reply; "" when it does not fit. */
void lock_copy_text(const struct redis_value *reply, char *out, size_t out_size);

/* The call that a store fills in, again and again. */
struct store_call *store_call_new(struct store *store);
void store_call_free(struct store_call *call);

#endif
