/* The embedded Redis: a redis-server child with its data and its socket in one directory.
 *
 * All calls come from the main thread, and that thread must live as long as the process: the
 * kernel ends the child when the thread that forked it ends. SIGPIPE must be ignored. */
#ifndef RLOCKD_STORAGE_REDIS_EMBEDDED_H
#define RLOCKD_STORAGE_REDIS_EMBEDDED_H

#include <stddef.h>

struct redis_embedded;

/* Makes the directory (not its parents), starts the child and returns when the child answers:
 * within milliseconds, later when it has much data to load (up to 60 s) or when the child of a
 * killed rlockd has not ended yet (up to 10 s). A SIGTERM or SIGINT that is blocked and pending
 * ends the start early. NULL: `error` is one line with the reason. */
struct redis_embedded *redis_embedded_start(const char *data_dir, char *error,
                                            size_t error_size)
    __attribute__((warn_unused_result));

/* The unix:// URL for redis_url_parse(); lives as long as `redis`. */
const char *redis_embedded_url(const struct redis_embedded *redis);

/* Notices that the child ended, and starts it anew after a pause that grows with every early
 * end. To be called on SIGCHLD and when the time is over that it returns: milliseconds, -1 for
 * no limit. Never waits; the connections find out by themselves when the new child is ready. */
int redis_embedded_tick(struct redis_embedded *redis);

/* Ends the child, by force after 10 s, and frees `redis` (or NULL). */
void redis_embedded_stop(struct redis_embedded *redis);

#endif
