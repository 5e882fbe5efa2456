/* The store: what all calls of Redis share in one worker. The files of its room:
 *
 *   store.c         its life, ids of attempts, and which names one script can serve
 *   options.c       what it was made with
 *   store_part.c    memory that other rooms keep in it
 *   store_call.c    a script with its KEYS and ARGV, filled in and sent
 *   reply_word.c    the word that a reply begins with
 *   call_outcome.c  what a call came to
 *   errand.c        scripts that are sent again until Redis has confirmed them
 *   turns.c         pieces of expensive work, a few at a time
 *   look_turns.c    turns of scripts that read many keys
 *   visits.c        turns of scripts at the homes of a session's leases
 *   marker.c        notices that Redis has lost data, and how long the quarantine lasts
 *   key.c           the names of keys and channels
 *   kind.c          one row for each kind of object
 *   lease.h         a request about a lease
 *   lock_names.c    the names of the objects of a lease
 *   lease_record.c  the record of a lease, beside its object
 *   lease_ref.c     the text that names a lease in its session's home
 *   holder.c        the holder fields of a lock's hash
 *   lock_probe.c    the names that a new connection tries its permissions on
 *
 * Every room of storage/ above this one may call it (notes, lease, session, look, wait), and so
 * may handlers/ and server/worker.c. The room itself calls storage/topology/ only. */
#ifndef RLOCKD_STORAGE_STORE_STORE_H
#define RLOCKD_STORAGE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/config.h"
#include "server/base/loop.h"
#include "server/base/metrics.h"
#include "storage/store/lease.h"
#include "storage/topology/topology.h"

struct store_options {
    const struct config *config;
    struct loop *loop;
    struct metrics *metrics;
    struct topology *topology;
    const char *worker_id; /* unique among all front ends */
};

struct store;

/* NULL: out of memory. */
struct store *store_new(const struct store_options *options);
void store_free(struct store *store);

/* The parts that the store was made with. */
const struct config *store_config(const struct store *store);
struct loop *store_loop(const struct store *store);
struct metrics *store_metrics(const struct store *store);
struct topology *store_topology(const struct store *store);

/* An attempt that no other request has, of any front end. */
void store_attempt_id(struct store *store, char attempt[ATTEMPT_ID_SIZE]);
/* The name of the lock's hash in Redis: the key prefix and the name. */
size_t store_key_name(const struct store *store, const char *name, char *out, size_t out_size);

enum names_fitness {
    NAMES_FIT,
    NAMES_HAVE_UNMATCHED_BRACES, /* in a cluster: the keys of one object are in several slots */
    NAMES_ARE_IN_SEVERAL_SLOTS   /* in a cluster: of a set */
};

/* Whether the keys of all these objects are in one slot, so that one script can serve them. */
enum names_fitness store_check_names(const struct store *store, const char *const *names,
                                     size_t count);

/* For how long no lease of this object is granted, since its Redis may have lost some; 0:
 * leases are granted. `name` as clients say it; NULL: the longest of all objects. */
int64_t store_quarantine_ms(const struct store *store, const char *name);

/* The same of one node: whether leases are granted there. */
bool store_may_grant(const struct store *store, const struct topology_node *node);

/* The state of a server of a quorum, for /readyz. */
struct store_member {
    const struct topology_node *node; /* NULL begins, and is the end */
    bool is_up;                       /* it may be asked, and takes writes */
    int64_t quarantine_ms;            /* for which it gives no votes; 0: it does */
    bool has_clock;
    int64_t clock_offset_us; /* to the median of the servers; 0: also where it is not known */
};

/* What each server of a quorum has said to the request whose callback is running, as one
 * phrase; else the state of each server. Empty: this is no quorum. */
enum { STORE_HEARD_SIZE = 704 };
void store_describe_members(const struct store *store, char text[STORE_HEARD_SIZE]);
/* The next server. */
void store_next_member(const struct store *store, struct store_member *member);

/* For how long a lease holds that was granted at `at_us`, in µs of Redis' clock, as a fencing
 * token is, or one more than the last token where Redis' clock was set back. In ms; negative:
 * not known. */
int64_t store_held_ms(const struct store *store, int64_t at_us);

/* Whether holds are counted by prefix of their names: then scripts that end a lease are asked
 * for its fencing token, and store_observe_hold() is given that token; 0: not known. */
bool store_is_timed(const struct store *store);
void store_observe_hold(const struct store *store, const char *name, int64_t fencing_token);

/* To be called when Redis is usable again. */
void store_redis_is_up(struct store *store);

/* How many errands (withdrawals, forgotten attempts) Redis has not confirmed yet. */
size_t store_pending(const struct store *store);

/* A part that another room keeps in a store: memory that lives until the store is freed. */
struct store_part {
    size_t size;
    void (*init)(void *part, struct store *store); /* of cleared memory; NULL: nothing to do */
    void (*release)(void *part);                   /* NULL: nothing to do */
};

/* The store's memory for this part, made when it is first asked for. `part` is a constant: its
 * address is what the memory is found by. */
void *store_part(struct store *store, const struct store_part *part);

enum { LIST_CURSOR_SIZE = 96 /* a cursor of a listing, of locks or of sessions */ };

#endif
