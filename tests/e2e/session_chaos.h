/* Clients with sessions hold, renew and pass on locks through whichever of three front ends
 * answers, while a test kills front ends, or what they need. No lease of a live session is
 * lost before its client's deadline for it, but for what a failover of Redis lost, which is
 * told; none of a dead session survives. The deadline is that of guide.md: when the request was
 * sent, and remaining_ms of the lease in its answer. A lease lapses
 * when it is lost after its deadline: no front end came to renew it in time. That is no defect
 * where the machine itself was late meanwhile (late_ms() of harness.h).
 */
#ifndef E2E_SESSION_CHAOS_H
#define E2E_SESSION_CHAOS_H

#include <pthread.h>
#include <stdatomic.h>

#include "harness_session.h"

enum {
    CHAOS_OWN_LOCKS = 3, /* held by each client all its life */
    CHAOS_SHARED_LOCKS = 6,
    CHAOS_FRONTS = 3,
    CHAOS_DEAD_MAX = 20000,
    CHAOS_LOSSES_MAX = 200
};

struct chaos;

/* What a chaos is like. CHAOS_SECONDS, CHAOS_CLIENTS and CHAOS_SEED say otherwise. */
struct chaos_plan {
    int clients, seconds;
    /* Of the watchdog, of sessions, for an answer of any front end, and what may come on top
     * before the leases of a dead session are gone: on a machine that is not busy. */
    int timeout_ms, session_ms, patience_ms, slack_ms;
    /* For how long some hold a shared lock; one of so many holders dies instead of releasing
     * it. */
    int hold_ms, death_odds;
    /* Leases that were granted so long before a failover may be lost by it; 0: none may. */
    int recent_ms;
    /* Does what it does in a second or so, by the thread of the test. */
    void (*strike)(struct chaos *chaos);
};

/* What one shared lock protects. */
struct chaos_arena {
    pthread_mutex_t mutex;
    const struct chaos_client *holder; /* NULL: the last one to enter has left */
    int64_t entered_ms, deadline_ms;   /* of the holder */
    json_int_t last_fence;
    volatile long counter; /* not under the mutex: the lock protects it */
    _Atomic long grants;
};

/* A lease that has to be gone by a time. */
struct chaos_dead {
    char lock[48], holder[80];
    int64_t by_ms;
};

/* A failover, from the death of a master until all was well again. */
struct chaos_loss {
    int64_t from_ms;
    _Atomic int64_t to_ms;
};

struct chaos {
    const struct chaos_plan *plan;
    struct world *world;
    struct redis *redis;
    void *topology; /* for strike() */
    unsigned seed;
    struct front *fronts[CHAOS_FRONTS];
    const char *flags[3];
    int ports[CHAOS_FRONTS];
    struct chaos_arena arenas[CHAOS_SHARED_LOCKS];
    _Atomic bool over;
    _Atomic long keep_alives, retries, deaths, ends, births, confirmed;
    _Atomic long leases_lost, sessions_lost, overlaps, lapses;
    long kills, strikes;
    _Atomic int violations;
    pthread_mutex_t mutex;
    char first_trouble[512];
    struct chaos_dead dead[CHAOS_DEAD_MAX];
    _Atomic size_t dead_len;
    size_t dead_checked;
    struct chaos_loss losses[CHAOS_LOSSES_MAX];
    _Atomic size_t losses_len;
};

/* Runs it over this Redis, and fails the test when a rule was broken, little happened, or
 * anything is left behind. */
void chaos_run(struct world *w, const struct chaos_plan *plan, struct redis *redis,
               void *topology);

/* For strike(): */
/* Kills one or two front ends, and brings them back; one is always there. */
void chaos_kill_fronts(struct chaos *chaos);
/* A master is about to die; all is well again. */
void chaos_loss_begins(struct chaos *chaos);
void chaos_loss_ends(struct chaos *chaos);
/* Naps, and looks whether dead sessions are gone: Redis has to be whole. */
void chaos_nap(struct chaos *chaos, int ms);

/* ---- for the files of the chaos itself ---- */

struct chaos_client {
    struct chaos *chaos;
    int number, lives;
    unsigned seed;
    pthread_t thread;
    struct rest rest;
    char token[UUID_SIZE], id[UUID_SIZE];
    char own[CHAOS_OWN_LOCKS][UUID_SIZE], own_ids[CHAOS_OWN_LOCKS][UUID_SIZE];
    bool has_own[CHAOS_OWN_LOCKS];
    /* The last one of the shared lock. */
    int64_t granted_ms[CHAOS_OWN_LOCKS + 1], deadline_ms[CHAOS_OWN_LOCKS + 1];
    int64_t late_ms[CHAOS_OWN_LOCKS + 1]; /* late_ms() soon after a renewal */
    long lapses;                          /* of this session */
    int64_t born_ms;
    int64_t sent_ms;       /* the request that was answered last */
    int64_t alive_ms;      /* when the last keep-alive that was answered had been sent */
    int64_t alive_late_ms; /* late_ms() then */
    bool holds_shared;
    bool is_lost; /* the session: by a failover, or on a late machine */
    char shared_id[UUID_SIZE];
};

/* A thread's. */
void *chaos_client_run(void *client);
/* Of the watchdog: on a busy machine a renewal comes late, and a lease that is lost then is no
 * defect. */
int chaos_timeout_ms(const struct chaos *chaos);

#endif
