/* The servers of a run: one Redis; a master with its replicas, and the Sentinels that watch
 * over it; the masters of a cluster; or the servers of a quorum. */
#ifndef RLOCKD_TESTS_SIM_SERVERS_H
#define RLOCKD_TESTS_SIM_SERVERS_H

#include "tests/sim/redis.h"
#include "tests/sim/schedule.h"

#define HOUR_US INT64_C(3600000000)

enum topology {
    TOPOLOGY_SINGLE,
    TOPOLOGY_SENTINEL,
    TOPOLOGY_CLUSTER,
    TOPOLOGY_QUORUM,
    TOPOLOGIES
};

enum {
    MASTERS_MAX = 3,
    REPLICAS_MAX = 2,
    SENTINELS = 3,
    SERVERS_MAX = 1 + REPLICAS_MAX + SENTINELS
};

/* A change on its way from a master to a replica. */
struct change {
    struct change *prev, *next;
    int64_t at_ns, now_ms, offset;
    size_t argc;
    struct bytes argv[];
};

struct server {
    struct redis redis;
    int number;
    bool is_paused;  /* its process answers nobody */
    bool is_stopped; /* there is no process */
    bool is_cut_off; /* of a replica, from its master; of a master, from the others */

    /* Of a replica. */
    struct server *master; /* NULL: it is none */
    bool is_synced;        /* it has a copy of the master's data, and follows */
    struct change *changes;
    int64_t last_ns;     /* when the last of them comes */
    int64_t last_script; /* that made the last of them; 0: no script did */
    int64_t told, acked; /* offsets that the master will know it has, and knows */
    struct timer arrive, ack, sync;
    int64_t offset; /* how many changes it has; of a master: has made */

    /* Of a master of a cluster. */
    bool is_down; /* says that the cluster is */

    /* Of a Sentinel. */
    bool is_sentinel;
    struct server *named; /* the master, as far as it knows */
    int64_t epoch;
    struct timer learn;

    /* Of a server of a quorum, whose clock is its own. */
    int64_t skew_us, clock_ppm; /* ahead at the start, and faster by so much */
    int64_t hurt_until_ns;      /* until then it is one of those that may fail */
};

/* The clock of all servers but those of a quorum. */
int64_t servers_clock_us(void);
int64_t server_clock_us(const struct server *server);
/* False: there is none with this name. */
bool topology_read(const char *word, enum topology *topology);

/* The servers of the seed's run. `count`: replicas, masters of a cluster, or servers of a
 * quorum. */
void servers_init(enum topology topology, int count, uint64_t seed);
/* The URL that leads to them. */
const char *servers_url(void);
/* By the port of an address; 0: the only server, by the path of its socket. */
struct server *server_at(int port);
int server_port(const struct server *server);
/* NULL begins, and NULL is the end. */
struct server *server_next(struct server *server);
/* The same, for those that have the keys, or a part of them. */
struct server *server_next_master(struct server *server);
struct server *server_at_index(int index);
/* Has this key, or would have it. */
struct server *servers_owner(struct bytes key);
/* One of those that have keys; of a quorum, one that may fail now. */
struct server *servers_pick_master(struct chance *chance);

/* replication.c */
void replication_init(uint64_t seed);
extern const struct redis_peers replication_peers;
/* `server` follows the master: it gets the master's data first, in a while. */
void replication_follow(struct server *server, struct server *master);
/* Nothing goes between a replica and its master; or what was held back comes. */
void replication_cut_off(struct server *server, bool is_cut_off);
/* All replicas have all data. */
bool replication_is_complete(void);
/* A replica becomes the master; the others follow it, but for the old master,
 * which knows nothing of that. */
void replication_promote(void);
/* Changes that are on their way to the master's replicas never arrive. */
void replication_lose_sent(const struct server *master);
/* The master's process begins anew, with the data that it has now. */
void replication_restart(struct server *master);

/* cluster.c */
extern const struct redis_peers cluster_peers;
void cluster_init(int masters, uint64_t seed);
struct server *cluster_owner(struct bytes key);
/* The slot of this key is to move to another master. False: it moves already. */
bool cluster_begin_move(struct bytes key, uint16_t *slot);
/* One key of the slot. False: none is left. */
bool cluster_move_key(uint16_t slot);
/* The slot has another owner now; those that have no part in it learn of it later. */
void cluster_end_move(uint16_t slot);

/* quorum.c */
void quorum_init(int count, uint64_t seed);
/* One of the servers that fail already, or one more if a majority is left. */
struct server *quorum_pick(struct chance *chance);
/* From now on a server that was restarted fails until its quarantine is over. */
void quorum_note_restart(struct server *server);

/* sentinels.c */
extern const struct redis_peers sentinel_peers;
void sentinels_init(uint64_t seed);
/* They name the present master from now on, each a while later than the first. A Sentinel that
 * stands still learns of it when it goes on. */
void sentinels_switch(void);
struct server *sentinels_pick(struct chance *chance);

#endif
