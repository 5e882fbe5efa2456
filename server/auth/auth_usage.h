/* A caller's use of its limits, counted for all workers together. */
#ifndef RLOCKD_SERVER_AUTH_AUTH_USAGE_H
#define RLOCKD_SERVER_AUTH_AUTH_USAGE_H

#include <stdbool.h>
#include <stdint.h>

struct auth_usage;

/* NULL: out of memory. */
struct auth_usage *auth_usage_new(void);
/* One more reference, or one less; NULL is allowed. */
struct auth_usage *auth_usage_keep(struct auth_usage *usage);
void auth_usage_drop(struct auth_usage *usage);

/* Counts one more waiting request, unless there are `max`. Each true needs one
 * auth_usage_end_wait(). */
bool auth_usage_begin_wait(struct auth_usage *usage, int64_t max)
    __attribute__((warn_unused_result));
void auth_usage_end_wait(struct auth_usage *usage);

/* One more request at `now_ns` (clock_ns()), unless the last second had `per_second`. After a
 * pause that many may come at once. */
bool auth_usage_request(struct auth_usage *usage, int64_t per_second, int64_t now_ns)
    __attribute__((warn_unused_result));

#endif
