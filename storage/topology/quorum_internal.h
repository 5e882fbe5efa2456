/* Shared by the files of a quorum: 3 or 5 servers that know nothing of each other, each with
 * all keys. Each file needs only those above it:
 *
 *   quorum_members.c        the connections to the servers, and which of them count
 *   quorum_subscriptions.c  a channel is listened to at every server
 *   quorum.c                its life */
#ifndef RLOCKD_STORAGE_TOPOLOGY_QUORUM_INTERNAL_H
#define RLOCKD_STORAGE_TOPOLOGY_QUORUM_INTERNAL_H

#include <uthash.h>

#include "storage/topology/topology_internal.h"

enum { QUORUM_REASON_SIZE = 512 };

struct quorum;

struct quorum_member {
    struct topology_node node; /* the first member: a node of the topology is a member */
    struct quorum *quorum;
    struct redis_url url;
    size_t number;
    bool is_up; /* connected, and no other member is the same server */
    /* The member that was the same server when this one connected last; NULL: none was. */
    const struct quorum_member *twin;
};

struct quorum_subscription;

/* The subscription at one server. */
struct quorum_part {
    struct subscription subscription;
    struct quorum_subscription *whole;
    bool was_heard; /* since the owner was told last */
};

struct quorum_subscription {
    UT_hash_handle hh;
    struct subscription *owner;
    struct quorum *quorum;
    bool was_ready;    /* the owner knows that a majority listens */
    bool has_message;  /* one of those that were heard since was a message, not only the
                          acknowledgement of a subscription */
    char message;      /* of one byte */
    size_t heard;      /* at so many servers since then */
    struct timer late; /* the other servers' messages do not come */
    int64_t late_ns;   /* when this timer fired last */
    struct quorum_part parts[TOPOLOGY_QUORUM_MAX];
};

struct quorum {
    struct topology topology;
    bool is_stopped;
    size_t count;
    struct quorum_member members[TOPOLOGY_QUORUM_MAX];
    struct topology_runner runner;
    struct quorum_subscription *subscriptions;
    char why_not[QUORUM_REASON_SIZE]; /* empty: all servers are up */
};

static inline size_t quorum_needs(const struct quorum *quorum)
{
    return quorum->count / 2 + 1;
}

/* quorum_members.c */
bool quorum_members_start(struct quorum *quorum) __attribute__((warn_unused_result));
void quorum_members_stop(struct quorum *quorum);
void quorum_members_free(struct quorum *quorum);
/* How many can be used: a server whose disk is full takes no votes. */
size_t quorum_members_up(const struct quorum *quorum);
/* Why not all are up, as one phrase; empty: all are. */
const char *quorum_members_trouble(struct quorum *quorum);
/* Whether two hosts of the URL lead to one server. */
bool quorum_members_have_twins(const struct quorum *quorum);

/* quorum_subscriptions.c */
void quorum_subscribe(struct topology *topology, struct subscription *subscription,
                      const char *channel, size_t len);
void quorum_unsubscribe(struct topology *topology, struct subscription *subscription);

#endif
