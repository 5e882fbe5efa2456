/* One worker: a thread with its loop, its HTTP, its connections to Redis and its waiters.
 * Workers share the settings and what they pass on to each other; else a second worker is like
 * a second front end. */
#ifndef RLOCKD_SERVER_WORKER_H
#define RLOCKD_SERVER_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct addresses;
struct auth_source;
struct proxies;
struct config;
struct metrics;
struct neighbours;
struct origin_rules;
struct redis_url;
struct worker;

/* Shared by all workers, and outlives them. */
struct worker_shared {
    const struct config *config;
    const struct redis_url *redis_url;
    struct auth_source *auth; /* NULL: no API tokens */
    struct addresses *addresses;
    const struct proxies *trusted_proxies; /* NULL: none */
    const struct origin_rules *origins;
    struct neighbours *neighbours; /* NULL: one worker */
    struct metrics **metrics;
    size_t worker_count;
    atomic_size_t ready_workers; /* those that can use some keys at least */
    bool socket_is_inherited;    /* and stays open elsewhere: whoever comes next accepts */
};

/* Makes worker `number` of the front end, counted from 0, without its thread. Takes ownership
 * of `listen_fd`. NULL after one log line. */
struct worker *worker_new(struct worker_shared *shared, size_t number, int listen_fd);
struct metrics *worker_metrics(struct worker *worker);
/* Runs until it is drained: call it on the worker's thread. */
void worker_run(struct worker *worker);
/* From any thread: answers the waiters, finishes the requests under way, then worker_run()
 * returns. */
void worker_drain(struct worker *worker);
/* From any thread: asks for a turn of the worker's loop. False: the worker has not taken the
 * turn that was asked for last, so its loop hangs. */
bool worker_ping(struct worker *worker);
void worker_free(struct worker *worker);
/* Frees workers that have run, when none runs any more: what they passed on to each other is
 * answered. */
void workers_free(struct worker *const *workers, size_t count);

#endif
