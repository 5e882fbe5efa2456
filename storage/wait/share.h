/* How the turns of a lock, or of permits, are shared between the waiters of this worker and all
 * other clients: hand-overs counted and timed. No loop, no queue; times as clock_ns().
 *
 * A streak is a run of hand-overs without a turn of other clients. After each streak a release
 * is tried for other clients first: if any listen, this worker yields for a while. A series is
 * a longer run, which ends with a release that is open to all clients, those that poll, too.
 *
 * An open release is one that finds no waiter here. If another client has had one turn since
 * the last one, it probably wants the lock again, but learns of the release from a message: a
 * request that follows here could come first, again and again. So this worker yields until that
 * client has released the lock, too, or for a while. Clients that have several turns between
 * those of this worker leave nothing to others, and get no yield. */
#ifndef RLOCKD_STORAGE_WAIT_SHARE_H
#define RLOCKD_STORAGE_WAIT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct share {
    bool of_permits;          /* hand-overs of several permits may be under way at a time */
    unsigned here;            /* hand-overs since the lock came to this worker */
    unsigned hand_overs;      /* of the series */
    int64_t handing_over_ns;  /* when the series began; only if hand_overs > 0 */
    unsigned streak;          /* hand-overs of the streak */
    unsigned streak_max;      /* hand-overs of a whole streak; 0: the least */
    int64_t streak_ns;        /* when the streak began */
    bool others_first;        /* the release under way is for other clients, if any listen */
    bool has_yielded;         /* no attempt has followed the last yield yet */
    int64_t yield_until_ns;   /* the latest end of this worker's last yield; it may be over */
    bool ends_with_message;   /* the last yield followed an open release */
    unsigned open_passed;     /* open releases without a yield that there could have been */
    unsigned open_pass;       /* so many of them come before the next yield */
    uint64_t messages;        /* unlock messages so far */
    uint64_t messages_before; /* the number of them before the last hand-over */
    uint64_t messages_open;   /* before the last open release, */
    uint64_t messages_yield;  /* and before the last one with a yield */
};

/* Goes with a lock from worker to worker of the process; the members are as above. */
struct hand_over_series {
    bool is_open;        /* the release is open to all clients */
    bool has_gone_round; /* more hand-overs since the lock came here than there are waiters */
    unsigned hand_overs;
    int64_t handing_over_ns;
    unsigned streak;
    int64_t streak_ns;
};

/* A release is about to be handed over; so many wait. Sets `others_first`. */
void share_choose(struct share *share, unsigned waiters, int64_t now_ns);
/* A waiter got the object by a hand-over. */
void share_handed_over(struct share *share, int64_t now_ns);
/* A request got the object by an attempt, as any client could have. */
void share_taken_freely(struct share *share, int64_t now_ns);
void share_message(struct share *share);

/* The lock, or one of the permits, of which none was free, is about to be released, and no
 * request waits here. The last message that woke requests came at `woken_ns`. */
void share_open_release(struct share *share, int64_t woken_ns, int64_t now_ns);
/* When a yield that begins now would end: it lasts as long as the streak did, within limits. */
int64_t share_next_yield_end_ns(const struct share *share, int64_t now_ns);
/* This worker yields until then. */
void share_yield(struct share *share, int64_t now_ns, int64_t until_ns);
/* The end of the last yield of this worker and of the other workers of the process, whose last
 * yield ends at `others_ns` (0: none); both may be over. */
int64_t share_yield_end_ns(const struct share *share, int64_t others_ns);
/* The first attempt after a yield is over: `got_it` says whether it got the lock. Yields get
 * rarer if no other client wanted the lock during the yield. Does nothing if no yield waits for
 * this. */
void share_yielded(struct share *share, bool got_it);

/* Fills in the series for a release that happens now. A release that is open to all clients
 * begins the next series. */
void share_read_series(struct share *share, unsigned waiters, int64_t now_ns,
                       struct hand_over_series *series);
/* The lock went to another worker, and with it its series. */
void share_passed_on(struct share *share);
/* The lock came from another worker. */
void share_take_over(struct share *share, const struct hand_over_series *series);

#endif
