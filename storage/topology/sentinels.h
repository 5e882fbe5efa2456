/* The Sentinels that watch over a master: they name the present master, and report its
 * replacement. The Sentinels of the URL are asked in turn, then the Sentinels that these know
 * of. */
#ifndef RLOCKD_STORAGE_TOPOLOGY_SENTINELS_H
#define RLOCKD_STORAGE_TOPOLOGY_SENTINELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "storage/redis/call.h"
#include "storage/redis/url.h"

struct sentinels;

struct sentinels_options {
    const struct redis_url *url; /* of REDIS_SENTINEL */
    struct loop *loop;
    struct metrics *metrics;
    /* Ends sentinels_find(): the master's address, or NULL and one phrase for operators. */
    void (*found)(void *arg, const struct redis_host *master, const char *why_not);
    /* The master is now another server than the last one that `found` or this callback
     * named. */
    void (*switched)(void *arg, const struct redis_host *master);
    void *arg;
};

/* Starts connecting. The options' pointers must outlive the Sentinels. NULL: out of memory. */
struct sentinels *sentinels_new(const struct sentinels_options *options);
/* No callback comes any more. */
void sentinels_stop(struct sentinels *sentinels);
void sentinels_free(struct sentinels *sentinels);

/* Asks for the master, also to have the last answer confirmed. `found` is called once, at once
 * or later, in bounded time; a second call before that changes nothing. */
void sentinels_find(struct sentinels *sentinels);
/* The server that was named last is no usable master: the next question goes to another
 * Sentinel. */
void sentinels_distrust(struct sentinels *sentinels);

/* The number of known Sentinels, from the URL or from other Sentinels. */
size_t sentinels_known(const struct sentinels *sentinels);
/* Whether any Sentinel answers. */
bool sentinels_answer(const struct sentinels *sentinels);

/* sentinel_reply.c: reads replies of a Sentinel, and checks their form. False: a wrong form, or
 * an empty reply. */

/* The reply to SENTINEL GET-MASTER-ADDR-BY-NAME: host, port. */
bool sentinel_read_master(const struct redis_value *reply, struct redis_host *master);
/* The configuration epoch in the reply to SENTINEL MASTER: the number of the failover that made
 * this server the master, 0 before the first failover. SENTINEL_NO_EPOCH: there is none. */
#define SENTINEL_NO_EPOCH ((int64_t)-1)
int64_t sentinel_read_epoch(const struct redis_value *reply);
/* One element of the reply to SENTINEL SENTINELS: names and values in turns. */
bool sentinel_read_sentinel(const struct redis_value *element, struct redis_host *sentinel);
/* The message of +switch-master, "name old-host old-port new-host new-port". False also for
 * another master's name. */
bool sentinel_read_switch(const char *message, size_t len, const char *name,
                          struct redis_host *master);

#endif
