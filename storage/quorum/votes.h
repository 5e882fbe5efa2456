/* The conclusions of a front end from the replies of the nodes of a quorum: replies in,
 * conclusion out, no I/O. The functions are those of tests/model/quorum/conclusion.py, in its
 * order, and are tested against the cases that the model prints. */
#ifndef RLOCKD_STORAGE_QUORUM_VOTES_H
#define RLOCKD_STORAGE_QUORUM_VOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QUORUM_NODES_MAX = 5 };

/* The reply of a node; the value is that of the reply, 0 where none is named. */
enum node_word {
    NODE_SILENT, /* no reply yet, or no connection */
    /* to a vote */
    NODE_ACCEPTED,   /* the token that was asked for, or of this round's vote before */
    NODE_HELD,       /* token: the lease holds there; to a look or a renewal, too */
    NODE_BUSY,       /* another lease holds; of a renewal or release: the lease only waits */
    NODE_LOW,        /* the counter, which is not below the token that was asked for; to a
                        force-unlock, the token of a hold above it */
    NODE_CLOCK,      /* a number just below a token that the node's clock allows; to a
                        force-unlock, too */
    NODE_LAPSED,     /* the lease's hold has ended there */
    NODE_SPENT,      /* the lease is spent there; to a renewal or a claim NODE_GONE */
    NODE_QUARANTINE, /* also a node that was not asked because of its quarantine */
    NODE_UNBOUND,    /* the lease is not noted in its session there, or the session is over */
    NODE_REFUSED,    /* a refusal that no vote overcomes: reused, wrong-kind, too-many */
    /* to a claim */
    NODE_CLAIMED, /* ms that the hold has left; of a visit: it ends by itself then */
    NODE_GONE,    /* no such hold; to a renewal, too */
    /* to a renewal or a look */
    NODE_RESTARTED, /* the hold is older than the node's process, and not confirmed since */
    NODE_MARKED,    /* token: to a renewal, which is to be sent again */
    /* to a release, an end, a force-unlock, a look */
    NODE_RELEASED,
    NODE_ENDED, /* of a session, too */
    NODE_FORCED,
    NODE_FREE,
    NODE_OTHER, /* not this lease: another one holds; of a claim or a visit: this token is that
                   of a lease of another session; of a renewal: the lease ends by itself */
    /* of a session */
    NODE_OPEN,   /* ms until its deadline */
    NODE_PASSED, /* its deadline has */
    NODE_UNKNOWN
};

struct node_reply {
    enum node_word word;
    int64_t value;
};

/* The question of an operation in one round. Times are ms of the monotonic clock. */
struct quorum_ask {
    unsigned nodes;   /* N: 3 or 5 */
    unsigned number;  /* of the round, from 1 */
    unsigned last;    /* number of the last round that the operation may make */
    int64_t token;    /* proposed, claimed or checked */
    int64_t sent_ms;  /* before the first byte was sent, rounded down */
    int64_t ttl_ms;   /* of the lease or the session */
    int64_t drift_ms; /* quorum_drift_ms(ttl_ms) */
};

enum conclusion_word {
    CONCLUDE_WAIT, /* further replies may still decide */
    CONCLUDE_UNKNOWN,
    CONCLUDE_LATE, /* a majority agrees, but no time is left to rely on it: as UNKNOWN */
    /* of votes */
    CONCLUDE_GRANTED, /* with `token`, until `until_ms` */
    CONCLUDE_CLAIM,   /* next: claim the lease with `token` */
    CONCLUDE_VOTE,    /* next: another round, of votes for `token`, to force it out, or of a
                         renewal at the nodes that have replied */
    CONCLUDE_END,     /* next: end the lost lease at all nodes (E1), then 410 */
    CONCLUDE_BUSY,    /* also of renewals: the lease only waits */
    CONCLUDE_SPLIT,   /* next: withdraw the votes, and try again: only the token is open */
    CONCLUDE_UNBOUND, /* the session is over, or full */
    CONCLUDE_REFUSED, /* as a reply NODE_REFUSED says */
    CONCLUDE_QUARANTINE,
    CONCLUDE_HELD,    /* of claims: with `token`, until `until_ms` */
    CONCLUDE_RENEWED, /* until `until_ms` */
    /* of releases and ends */
    CONCLUDE_RELEASED,
    CONCLUDE_ENDED, /* before: 410 */
    CONCLUDE_LOST,  /* the end is stored: 410 */
    /* of a force-unlock */
    CONCLUDE_FREE,
    CONCLUDE_SPEND, /* next: end the leases that were found, at all nodes */
    CONCLUDE_FORCED,
    /* of looks and checks of a token */
    CONCLUDE_LOCKED, /* with `token` */
    CONCLUDE_NOT_LOCKED,
    CONCLUDE_UNDECIDED,
    CONCLUDE_CURRENT,
    CONCLUDE_STALE,
    /* of sessions */
    CONCLUDE_ALIVE, /* until `until_ms` */
    CONCLUDE_SHUT,  /* next: end the session where its deadline has passed */
    CONCLUDE_CLOSE, /* next: end the session at all nodes; after a keep-alive: SHUT first */
    CONCLUDE_GONE,
    CONCLUDE_CLOSED,
    CONCLUDE_KEEP, /* not due: its deadline is `until_ms` */
    CONCLUSIONS
};

/* Their names, for operators. */
extern const char *const conclusion_names[CONCLUSIONS];

struct conclusion {
    enum conclusion_word word;
    int64_t token;
    int64_t until_ms; /* of the monotonic clock */
    /* Bits of nodes, 1 for the first one: those whose votes are withdrawn, if the operation
     * ends here or goes on to another token, and those that get the lease (R2) or the session
     * (S3) by a repair. */
    unsigned undo, mend;
};

unsigned quorum_majority(unsigned nodes);
int64_t quorum_drift_ms(int64_t ttl_ms);
/* Sorts the numbers of a few servers, the largest first. */
void quorum_sort_down(int64_t *numbers, size_t count);
/* Of at least one number; of an even count the larger of the two in the middle. Sorts them. */
int64_t quorum_median(int64_t *numbers, size_t count);

/* A1: the token to propose, in µs. `clocks_us`: those of the nodes, at least one. `last`: the
 * last token of the lock that this front end has seen. */
int64_t quorum_proposal(const int64_t *clocks_us, size_t count, int64_t last);

/* Each takes a reply for each of `nodes` nodes. `is_over`: the round is over, so no further
 * reply counts. */
typedef struct conclusion conclude(const struct quorum_ask *asked,
                                   const struct node_reply *replies, int64_t now_ms,
                                   bool is_over);

conclude conclude_votes;       /* A4 to A9 */
conclude conclude_claims;      /* A6 */
conclude conclude_renewals;    /* R1, R2 */
conclude conclude_releases;    /* D2 */
conclude conclude_ends;        /* E1 */
conclude conclude_forces;      /* O1, the first round */
conclude conclude_spends;      /* O1, the second round */
conclude conclude_looks;       /* O2, O4: of the one lease or field that a node names */
conclude conclude_checks;      /* O3 */
conclude conclude_keep_alives; /* S1 */
conclude conclude_closings;    /* S1: the end of a session */
conclude conclude_due;         /* S2: whether the session is due */
conclude conclude_shuts;       /* S2: the end of a session whose deadline has passed */

/* W2: whether a refused waiter sleeps; else it contends. `holders`: a number for each reply
 * NODE_BUSY, the same number for the same holder. */
bool quorum_may_sleep(const unsigned *holders, size_t count, unsigned nodes);
/* W3: whether the withdrawal of an attempt that had so many votes publishes. */
bool quorum_withdrawal_publishes(unsigned votes, unsigned nodes);
/* W1: whether a waiter gets the baton. `heard`: nodes that have published since its last
 * attempt. `is_timer_over`: 5 ms have passed since the first of these messages. */
bool quorum_has_baton(unsigned heard, bool is_timer_over, unsigned nodes);

#endif
