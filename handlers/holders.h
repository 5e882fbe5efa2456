/* Holders in answers: who holds an object, and since when. */
#ifndef RLOCKD_HANDLERS_HOLDERS_H
#define RLOCKD_HANDLERS_HOLDERS_H

#include <jansson.h>

#include "handlers/context.h"
#include "storage/store/holder.h"

/* {"lease_id": …} or {"redisson_holder": …}, with session, owner, caller, note, hold_count,
 * kind and held_ms where they are known. `lock`: as clients say it. */
json_t *holder_json(const struct handler_context *context, const char *lock,
                    const struct lock_holder *holder);

/* Adds `caller` and `held_ms` to a holder or waiter, where they are known: not empty, not
 * negative. */
void holder_add_caller(json_t *json, const char *caller);
void holder_add_held(json_t *json, int64_t held_ms);

#endif
