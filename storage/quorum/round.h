/* A round: one script, or one command, goes to the servers of a quorum at once, and the owner
 * is called for each reply. Replies that come after the round are dropped. */
#ifndef RLOCKD_STORAGE_QUORUM_ROUND_H
#define RLOCKD_STORAGE_QUORUM_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/loop.h"
#include "server/base/pool.h"
#include "storage/redis/call.h"
#include "storage/redis/reply_made.h"
#include "storage/redis/script_call.h"
#include "storage/topology/topology.h"

enum { ROUND_NODES_MAX = TOPOLOGY_QUORUM_MAX };

enum round_state {
    ROUND_NOT_ASKED,
    ROUND_ASKED,   /* the reply is still to come */
    ROUND_REPLIED, /* `value` */
    ROUND_REFUSED, /* certainly not executed */
    ROUND_UNKNOWN  /* the connection was lost */
};

struct round_reply {
    enum round_state state;
    enum redis_refusal refusal;
    struct redis_value *value; /* owned by the round */
};

struct round_ask;

/* Embedded in its owner, who does not write it. */
struct round {
    struct loop *loop;
    struct topology *topology;
    struct pool *pool;
    size_t nodes;    /* of the quorum */
    int64_t sent_ns; /* before the first byte was sent; loop_now_ns() */
    bool is_over;    /* no reply is still to come, or the time is up */
    struct round_reply replies[ROUND_NODES_MAX];
    struct round_ask *asks[ROUND_NODES_MAX]; /* under way */
    struct script_call behind;               /* of round_begin_behind(): the second script */
    struct timer timer;
    /* A reply has come, or the round is over. The owner may begin the next round, or release
     * this one. */
    void (*changed)(void *arg);
    void *arg;
};

/* A set of servers: bit i is server i. */
typedef uint32_t node_set;

static inline bool node_is_in(node_set set, size_t node)
{
    return (set >> node & 1U) != 0;
}

/* A pool for what rounds have under way. It outlives them, and every reply. */
void round_init_pool(struct pool *pool);
void round_init(struct round *round, struct topology *topology, struct loop *loop,
                struct pool *pool, void (*changed)(void *arg), void *arg);
/* Sends to those servers of `to` that are connected. changed() comes later, at least once. */
void round_begin(struct round *round, const struct script_call *call, node_set to);
/* The same behind another script, which each server runs first: both travel in one write, and
 * the reply to `first` does not count. The arguments of both stay where they are until the
 * round is over. */
void round_begin_behind(struct round *round, const struct script_call *first,
                        const struct script_call *call, node_set to);
/* The same with a plain command. */
void round_begin_command(struct round *round, const struct redis_command *command, node_set to);
/* The servers that were asked, and may have run the script. */
node_set round_touched(const struct round *round);
/* Ends the waiting for replies, and frees them. */
void round_release(struct round *round);

/* The servers that are connected now. */
node_set nodes_connected(struct topology *topology);

#endif
