/* The calls of a quorum: a script that a store sends goes to every server, and one answer is
 * given, as if one Redis had run the script. Which answer that is votes.h concludes. The files
 * of the room:
 *
 *   votes.c    what follows from the replies; no I/O
 *   round.c    one question to all servers
 *   repeat.c   scripts that each server has to confirm
 *   call.c     one call: its arguments, its words, its end
 *   busy.c     what servers say that are busy with other leases
 *   lost.c     the end of a lease that lost its majority
 *   bind.c     the note of a lease in its session, which goes before each vote and repair
 *   repair.c   gives a lease to a server that lacks it
 *   acquire.c  votes for a lease, and claims
 *   change.c   renew, release, withdraw, force-unlock
 *   look.c     looks
 *   claim.c    what a majority has of a lease, and claims
 *   heard.c    what each server has said, as text
 *   merge.c    one answer from lists of several servers
 *   session_words.c  what servers say about a session
 *   session_mend.c  gives a session to a server that lacks it
 *   session_end.c   ends a session
 *   session.c  opens a session, keeps it alive, looks
 *   notes.c    the notes of a session, its losses, and its pages
 *   watch.c    the watchdog: indices, what is due, visits to leases
 *   calls.c    which script goes which way
 *
 * The store makes the calls, and the topology hands them its scripts. The room calls
 * storage/topology/. */
#ifndef RLOCKD_STORAGE_QUORUM_CALLS_H
#define RLOCKD_STORAGE_QUORUM_CALLS_H

#include <stdint.h>

#include "server/base/config.h"
#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "storage/topology/topology.h"

struct quorum_calls;

/* Keys that the calls make, of a lock or a session. */
enum quorum_key {
    QUORUM_KEY_COUNTER,
    QUORUM_KEY_QUEUE, /* of a fair lock of this name */
    QUORUM_KEY_SESSION,
    QUORUM_KEY_SESSION_LEASES,
    QUORUM_KEY_SESSION_DUE,
    QUORUM_KEY_SESSION_LOST,
    QUORUM_KEY_SESSION_WAITS
};

struct quorum_calls_options {
    const struct config *config;
    struct loop *loop;
    struct metrics *metrics;
    struct topology *topology; /* a quorum */
    /* The clock of this server, in µs of its epoch; 0: not known. */
    int64_t (*clock_us)(void *arg, const struct topology_node *node);
    /* Whether it is known since when the process of this server has its data. The marker is
     * asked for before any script is, so its reply comes first. */
    bool (*is_marked)(void *arg, const struct topology_node *node);
    /* Whether this server gives no votes, since it came back not long ago. */
    bool (*is_quarantined)(void *arg, const struct topology_node *node);
    /* Writes a key of this name or id, which has at most `key_size` bytes with its NUL; returns
     * its length. */
    size_t (*write_key)(char *out, enum quorum_key key, const char *of, size_t len);
    size_t key_size;
    int64_t session_locks_max; /* the limit of session_bind.lua */
    void *arg;
};

/* From here on the scripts of the topology come here. NULL: out of memory. */
struct quorum_calls *quorum_calls_new(const struct quorum_calls_options *options);
/* The topology must be stopped. */
void quorum_calls_free(struct quorum_calls *calls);
/* A server is connected again. */
void quorum_calls_go_on(struct quorum_calls *calls);
/* How many withdrawals and releases are still on their way to connected servers. */
size_t quorum_calls_pending(const struct quorum_calls *calls);

/* At most for each of five servers an address, a reason, and what stands between. */
enum { QUORUM_HEARD_SIZE = 5 * (72 + 64 + 4) + 1 };

/* What each server has said to the call whose callback is running, as one phrase; else the
 * state of each server. */
void quorum_calls_describe(const struct quorum_calls *calls, char text[QUORUM_HEARD_SIZE]);

#endif
