/* One connection to Redis that keeps itself alive: connects, checks the server, sends the
 * gathered commands once a turn of the loop, gives every command a deadline, sorts errors, and
 * connects again. The files of the room:
 *
 *   link*.c         such a connection: see link_internal.h
 *   subscriber.c    a connection for messages, and its heartbeat
 *   script_call.c   a request as storage/store/ writes it
 *   script.c        the table of embedded scripts
 *   reply.c         reads replies, and sorts the errors of Redis
 *   reply_made.c    values that no Redis has sent
 *   guard.c         refuses replies that would make hiredis read on without end
 *   prepare.c       looks up addresses and reads files, in a thread
 *   tls_session.c   the TLS session of a connection
 *   slot.c          the slot of a key
 *   url.c           Redis URLs
 *   embedded.c      the redis-server of --data-dir
 *   child.c         its process
 *
 * storage/topology/ makes connections; every room of storage/ reads replies. The room calls
 * server/base/ only. */
#ifndef RLOCKD_STORAGE_REDIS_LINK_H
#define RLOCKD_STORAGE_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "storage/redis/call.h"
#include "storage/redis/script_call.h"
#include "storage/redis/url.h"

struct redis_link;

#define REDIS_LACKS_REPLICAS "too few replicas confirm what is written"
#define REDIS_CLUSTER_IS_DOWN "the cluster is down, as Redis says"
#define REDIS_REFUSES_WRITES "Redis refuses writes since it cannot save them: is its disk full?"

enum {
    /* No answer for so long after the write of a command means that the connection is given up:
     * hiredis 0.14 has no deadline of its own. Redis itself answers BUSY only after 5 s of a
     * slow script. */
    REDIS_DEADLINE_MS = 2000
};

struct redis_link_options {
    /* The first of its hosts is connected to. Read at every connect: may name another server by
     * then. */
    const struct redis_url *url;
    struct loop *loop;
    struct metrics *metrics;
    const struct redis_probe *probe; /* NULL: a subscriber's connection, which is not probed */
    struct redis_sync sync;
    bool is_sentinel; /* that is asked for a master, and keeps no keys */
    /* NULL, or finds out which server `url` is to name: comes before every connect, and
     * redis_link_found() after it, at once or later. */
    void (*find)(void *arg);
    /* NULL, or asks whether the server is still the one to use: comes when a new connection has
     * passed all checks, and redis_link_confirmed() or redis_link_renew() after it. */
    void (*confirm)(void *arg);
    bool is_cluster_node;  /* keeps a part of the keys: scripts go in their form for that */
    bool broadcasts;       /* a cluster node: messages of scripts go to all nodes */
    bool is_quorum_member; /* one of several servers with all keys: scripts go in that form */
    void (*up)(void *arg);
    /* After every pending callback; an attempt is over when no address of the name is left. */
    void (*down)(void *arg);
    void *arg;
};

/* Starts connecting; the options' pointers must outlive the connection. NULL: out of memory. */
struct redis_link *redis_link_new(const struct redis_link_options *options);
/* Pending callbacks come with REDIS_UNKNOWN; neither `up` nor `down` is called any more. */
void redis_link_free(struct redis_link *link);

bool redis_link_is_up(const struct redis_link *link);
/* Whether bytes of Redis have come that the loop has not read yet: then silence proves
 * nothing. */
bool redis_link_has_unseen_events(const struct redis_link *link);
/* Why the connection is not up, as one phrase for operators; never a raw error of Redis. */
const char *redis_link_down_reason(const struct redis_link *link);
/* The process that answers, or answered last. */
const struct redis_server *redis_link_server(const struct redis_link *link);
/* The reason of the last trouble, also when it is up again; empty when the connection has
 * proven itself since. */
const char *redis_link_last_reason(const struct redis_link *link);

/* Asks whether Redis takes writes: while its disk is full it refuses PING, too (MISCONF). Call
 * it now and then. */
void redis_link_check_writes(struct redis_link *link);
bool redis_link_refuses_writes(const struct redis_link *link);

/* Whether too few replicas confirmed the last changes. */
bool redis_link_lacks_replicas(const struct redis_link *link);

/* Closes the connection and makes a new one. */
void redis_link_reconnect(struct redis_link *link, const char *reason);
/* The same without a back-off: to be called when there is news of the server. */
void redis_link_renew(struct redis_link *link, const char *reason);
/* Closes the connection for good. Not from within its callbacks. Before it returns, every
 * pending call ends, and every call that these callbacks make. */
void redis_link_stop(struct redis_link *link);
/* Ends what `find` began. `why_not`: no server was found; the connection is tried again later.
 */
void redis_link_found(struct redis_link *link, const char *why_not);
/* Ends what `confirm` began: the connection is up, unless it was lost meanwhile. */
void redis_link_confirmed(struct redis_link *link);
/* Notes that a subscriber's connection works: if it fails later, the next attempt comes
 * soon. */
void redis_link_proven(struct redis_link *link);

/* Queues a command. `done` comes exactly once, and later: REDIS_REFUSED when the connection is
 * not up. Arguments are copied. */
void redis_link_command(struct redis_link *link, const struct redis_command *command,
                        redis_done *done, void *arg);
/* See topology_share_script(). */
void redis_link_share(struct script_call *script, char *room, size_t size);
/* The same for a script: EVALSHA, and EVAL when Redis has forgotten the script. */
void redis_link_script(struct redis_link *link, const struct script_call *call,
                       redis_done *done, void *arg);

/* Pub/sub, for a connection that does nothing else (RESP2). Messages and acknowledgements of
 * all channels come to one callback. */
enum link_push {
    LINK_PUSH_SUBSCRIBED,
    LINK_PUSH_UNSUBSCRIBED,
    LINK_PUSH_MESSAGE,
    /* The same for the shard channel of that name, which for Redis is another channel. */
    LINK_PUSH_SHARD_SUBSCRIBED,
    LINK_PUSH_SHARD_UNSUBSCRIBED, /* also unasked: the slot has moved */
    LINK_PUSH_SHARD_MESSAGE
};
typedef void redis_link_pushed(void *arg, enum link_push push, const char *channel,
                               size_t channel_len, const char *payload, size_t payload_len);
/* Whether an answer to SUBSCRIBE is awaited for this channel: Redis is not taken at its word.
 */
typedef bool redis_link_awaits(void *arg, const char *channel, size_t len);
void redis_link_on_push(struct redis_link *link, redis_link_pushed *pushed,
                        redis_link_awaits *awaits, void *arg);
int redis_link_subscribe(struct redis_link *link, const char *channel, size_t len)
    __attribute__((warn_unused_result));
int redis_link_unsubscribe(struct redis_link *link, const char *channel, size_t len)
    __attribute__((warn_unused_result));
/* The same for the channel of that name in the shard. To be called after
 * redis_link_subscribe(), and before redis_link_unsubscribe(): hiredis knows channels from
 * those. */
int redis_link_subscribe_in_shard(struct redis_link *link, const char *channel, size_t len)
    __attribute__((warn_unused_result));
int redis_link_unsubscribe_in_shard(struct redis_link *link, const char *channel, size_t len)
    __attribute__((warn_unused_result));

#endif
