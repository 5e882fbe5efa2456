/* The Sentinels that watch over a master: which server is the master now, and when that
 * changes. Sentinels of the URL are asked in turn, and so are those that the asked ones know
 * of. */
#ifndef RLOCKD_STORAGE_TOPOLOGY_SENTINELS_H
#define RLOCKD_STORAGE_TOPOLOGY_SENTINELS_H

#include <stdbool.h>
#include <stddef.h>

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
    /* Another server than the one that was told last, by `found` or here, is the master now. */
    void (*switched)(void *arg, const struct redis_host *master);
    void *arg;
};

/* Starts connecting. The options' pointers must outlive the Sentinels. NULL: out of memory. */
struct sentinels *sentinels_new(const struct sentinels_options *options);
/* No callback comes any more. */
void sentinels_stop(struct sentinels *sentinels);
void sentinels_free(struct sentinels *sentinels);

/* Asks for the master. `found` comes once, at once or later, in bounded time; a second call
 * before that changes nothing. */
void sentinels_find(struct sentinels *sentinels);
/* The server that was told last is no usable master: another Sentinel is asked next time. */
void sentinels_distrust(struct sentinels *sentinels);

/* How many Sentinels are known, of the URL or by others. */
size_t sentinels_known(const struct sentinels *sentinels);
/* Whether one of them answers. */
bool sentinels_answer(const struct sentinels *sentinels);

/* sentinel_reply.c: what a Sentinel says, which is not taken at its word. False: it is in a
 * wrong form, or nothing. */

/* The reply to SENTINEL GET-MASTER-ADDR-BY-NAME: host, port. */
bool sentinel_read_master(const struct redis_value *reply, struct redis_host *master);
/* One element of the reply to SENTINEL SENTINELS: names and values in turns. */
bool sentinel_read_sentinel(const struct redis_value *element, struct redis_host *sentinel);
/* The message of +switch-master, "name old-host old-port new-host new-port". False also for
 * another master's name. */
bool sentinel_read_switch(const char *message, size_t len, const char *name,
                          struct redis_host *master);

#endif
