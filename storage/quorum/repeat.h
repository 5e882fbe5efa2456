/* Scripts that are sent to each server of a quorum until it has confirmed them, or their time
 * is over: withdrawals, releases, ends. No client waits for them. */
#ifndef RLOCKD_STORAGE_QUORUM_REPEAT_H
#define RLOCKD_STORAGE_QUORUM_REPEAT_H

#include "storage/quorum/round.h"

struct repeat_line;

/* NULL: out of memory. */
struct repeat_line *repeat_line_new(struct topology *topology, struct loop *loop);
/* No call may be under way any more. */
void repeat_line_free(struct repeat_line *line);
/* Sends to `to` now, or as soon as they are connected, for `ttl_ms` at most. Takes ownership of
 * `args`. */
void repeat_start(struct repeat_line *line, enum script script, struct script_args *args,
                  node_set to, int64_t ttl_ms);
/* A server is connected again. */
void repeat_go_on(struct repeat_line *line);
/* How many scripts await the confirmation of a server that is connected. */
size_t repeat_pending(const struct repeat_line *line);

#endif
