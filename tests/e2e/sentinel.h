/* Sentinels: processes of their own, and a master with two replicas and three of them. */
#ifndef E2E_SENTINEL_H
#define E2E_SENTINEL_H

#include "harness.h"

struct sentinel {
    struct world *world;
    struct child *child;
    char host[16], socket[96]; /* the socket is for the test */
    const char *path;          /* of the configuration */
    int port;
    redisContext *db;
};

/* A private Redis that listens on TCP, too, with further flags (NULL-terminated). */
struct redis *redis_start_tcp(struct world *w, const char *const *flags);
/* The same, with a clock that is so many seconds ahead of the machine's, also later on. */
struct redis *redis_start_skewed(struct world *w, int ahead_s);

/* Watches over this Redis as `mymaster`. A server that does not answer for `down_ms` is
 * replaced when `quorum` Sentinels agree. */
struct sentinel *sentinel_start(struct redis *master, int quorum, int down_ms);
/* kill -9, and back again. */
void sentinel_kill(struct sentinel *sentinel);
void sentinel_return(struct sentinel *sentinel);
/* redis-sentinel://host:port,…/mymaster of the first `count`, rediss-sentinel:// with TLS */
const char *sentinel_url(struct sentinel *const *sentinels, int count);
/* Whether this Redis is the master of `mymaster`, as the Sentinel says. */
bool sentinel_names(struct sentinel *sentinel, const struct redis *redis);
/* How many connections it has accepted. */
int sentinel_accepted(struct sentinel *sentinel);
/* A command; an error fails the test. */
void sentinel_ok(struct sentinel *sentinel, const char *format, ...) PRINTF_LIKE(2, 3);

enum { TRIO = 3 };

struct trio {
    struct redis *server[TRIO]; /* the first is the master at the start */
    struct sentinel *sentinel[TRIO];
    const char *url; /* of all Sentinels */
};

/* Returns when each Sentinel knows the others and both replicas, which follow the master. */
struct trio trio_start(struct world *w);
/* The server that the living Sentinels name. */
struct redis *trio_master(const struct trio *trio);
/* The number of the failover that made this master; failed ones count, too. */
int trio_failovers(const struct trio *trio);
/* Asks for another master; false: a Sentinel refuses that for now. */
bool trio_fail_over(const struct trio *trio);
/* A server that was killed comes back as a replica. */
void trio_return(const struct trio *trio, int server);
/* Waits until every replica that lives has all of what the master has. */
void trio_sync(const struct trio *trio);

#endif
