/* Values that outlive the reply they were copied from, or that no Redis has sent: for an answer
 * that is put together from the replies of several servers. The caller frees what it gets. */
#ifndef RLOCKD_STORAGE_REDIS_REPLY_MADE_H
#define RLOCKD_STORAGE_REDIS_REPLY_MADE_H

#include "storage/redis/reply.h"

/* Out of memory ends the process. */
struct redis_value *value_copy(const struct redis_value *value);
/* The value of a reply whose callback is running, and is the only one for this reply: nil is
 * left of the reply. Costs less than a copy. */
struct redis_value *value_take(const struct redis_value *reply);
struct redis_value *value_make_text(const char *text, size_t len);
struct redis_value *value_make_integer(int64_t number);
/* Of `count` nils. */
struct redis_value *value_make_list(size_t count);
/* Replaces what stands there, which is freed. A list without this place, as a reply of Redis of
 * another form is, stays as it is. Takes ownership of `value`. */
void value_put(struct redis_value *list, size_t i, struct redis_value *value);
/* Keeps the first `count` values. */
void value_cut(struct redis_value *list, size_t count);
/* NULL is fine. */
void value_free(struct redis_value *value);

#endif
