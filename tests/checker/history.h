/* A recorded run of clients and faults, as tests/faults writes it: docs/testing.md has the
 * format. All times are ns of one monotonic clock; texts are interned, so equal texts are equal
 * pointers, and an absent text is NULL. */
#ifndef RLOCKD_TESTS_HISTORY_H
#define RLOCKD_TESTS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <uthash.h>

#define NS_PER_MS 1000000LL
#define FOR_EVER INT64_MAX
/* Of an operation on Redis itself, by a client of Redisson. */
#define NO_FRONT (-1)

/* A multi-lock request names at most so many locks. */
#define LOCKS_MAX 32

/* Pointers to structs that live as long as the history. */
struct list {
    void **at;
    size_t count, size;
};

void list_add(struct list *list, void *item);

enum op_verb {
    OP_ACQUIRE,
    OP_RENEW,
    OP_RELEASE,
    OP_SESSION_OPEN,
    OP_KEEP_ALIVE,
    OP_SESSION_END,
    OP_FORCE,
    OP_PROBE
};

/* ENDED: 410, the lease or session is over. ABANDONED: the client hung up on purpose. */
enum outcome {
    OUTCOME_OK,
    OUTCOME_NOT_DONE,
    OUTCOME_ENDED,
    OUTCOME_UNKNOWN,
    OUTCOME_ABANDONED
};

/* One lease that a keep-alive's answer lists as held. */
struct listed {
    const char *lease;
    int64_t remaining_ms;
};

/* One lease that a keep-alive's answer names as lost. */
struct loss {
    const char *lease, *reason;
};

struct op {
    size_t line;
    enum op_verb verb;
    enum outcome outcome;
    int64_t t_inv, t_ret;
    int64_t status, front, remaining_ms, ttl_ms, wait_ms, hold_count;
    const char *client, *kind, *lease, *session, *owner, *reason, *malformed;
    const char *locks[LOCKS_MAX];
    int64_t tokens[LOCKS_MAX]; /* 0: the answer names none */
    size_t lock_count;
    struct listed *listed;
    struct loss *lost;
    size_t listed_count, lost_count;
    bool is_whole; /* the keep-alive's answer knows of each lease whether it holds */
    bool is_sweep, is_watchdog;
    bool refuses;      /* its session is to refuse a request that closes a deadlock */
    bool contends;     /* for a lock that nobody holds for long */
    bool is_bystander; /* asks for what nobody else wants */
};

struct fault {
    size_t line;
    const char *kind, *scope;
    int64_t t_begin, t_end, front, effect;
    int64_t undoes_until; /* what was done since `t_begin` is undone; 0: nothing is */
    bool loses_data;
    bool restarts; /* a server of a quorum, which gives no votes and confirms no hold then */
    bool minority; /* it hurts one server of a quorum, and there only one at a time */
};

/* A write to a resource that refuses every fencing token below the highest that it has seen. */
struct resource_write {
    size_t line;
    const char *lock, *lease;
    int64_t t, token;
    bool is_accepted;
};

/* What GET shows of a lock. */
struct look {
    size_t line;
    int64_t t_inv, t_ret, waiters;
    const char *lock;
    const char **holders; /* leases, or owners */
    size_t holder_count;
};

/* A request for one thing more, where there are `had` already and at most `most` may be. */
struct limit {
    size_t line;
    const char *subject;
    int64_t t_begin, t_end, had, most;
    bool is_granted;
};

/* A quorum has at most so many servers. */
#define QUORUM_MAX 5

/* How many scripts Redis ran between two moments, or each Redis server of a quorum, and how
 * many requests the clients sent in that time. */
struct rate {
    size_t line, servers;
    int64_t t_begin, t_end, scripts[QUORUM_MAX], requests, waiters;
};

/* A count after everything has ended that has to be back at its base. */
struct leak {
    size_t line;
    const char *subject, *detail;
    int64_t base, now, allowed;
    int64_t checks; /* how often the count was looked at */
};

/* One lease: one token on one lock or on one set of locks. */
struct lease {
    const char *id;
    const struct op *first;
    struct list ops;    /* struct op, in the order of their calls */
    struct list listed; /* struct op: the keep-alives that list it */
    UT_hash_handle hh;

    /* Certain hold: the lease holds all this time, as far as its client was told. */
    int64_t told_from, told_to;
    /* Possible hold: outside of this time the lease holds nothing for certain. */
    int64_t maybe_from, maybe_to;
    bool
        expires; /* nothing but its time ends the possible hold, and no message tells of that */
    int64_t asked_from; /* the first request for it */
    bool is_split; /* Redis lost its data in between, and the same token was granted anew */
    const struct op *last_telling;
};

struct session {
    const char *id;
    struct list ops;    /* struct op, in the order of their calls */
    struct list leases; /* struct lease: those that were asked for in it */
    UT_hash_handle hh;

    int64_t told_to; /* lives at least until then, as far as its client was told */
    int64_t maybe_to;
    int64_t ended_at;    /* an answer said that it has ended; FOR_EVER: none did */
    int64_t released_at; /* its client was told that its leases are released; or FOR_EVER */
};

struct lock {
    const char *name, *kind;
    int64_t permits; /* of a permit semaphore; 0: a lock */
    struct list leases, forces, writes;
    UT_hash_handle hh;
};

struct text;

struct history {
    struct list ops, faults, writes, rates, leaks, looks, limits;
    struct lease *leases;
    struct session *sessions;
    struct lock *locks;
    struct text *texts;
    int64_t retry_window_ms, watchdog_ms, max_ttl_ms, place_ms;
    int64_t masters; /* more than one: of a cluster, each of which loses a part of the data */
    int64_t quorum;  /* servers of a quorum; 0: it is none */
    const char *seed;
    bool is_started;
};

/* Reads all of it. False: a line is no history, and `why` names the line. */
bool history_read(struct history *history, FILE *file, char *why, size_t why_size);
void history_free(struct history *history);

/* NULL: the history has no such session or lease. */
struct session *history_session(const struct history *history, const char *id);
struct lease *history_lease(const struct history *history, const char *id);

/* troubles.c
 *
 * Whether a fault of these scopes was there between two moments, `after` ns after its end
 * included. `front`: -1 for any. */
bool history_is_troubled(const struct history *history, int64_t from, int64_t to,
                         int64_t after);
/* The same, but for the faults of a minority of a quorum. */
bool history_is_beyond_minority(const struct history *history, int64_t from, int64_t to,
                                int64_t after);
bool history_is_front_troubled(const struct history *history, int64_t front, int64_t from,
                               int64_t to, int64_t after);
bool history_lost_data(const struct history *history, int64_t from, int64_t to);
/* Whether a server of a quorum was restarted. */
bool history_restarted(const struct history *history, int64_t from, int64_t to);
/* Whether Redis came back with older data, so that what was done between two moments may be as
 * if it had never been done. */
bool history_is_undone(const struct history *history, int64_t from, int64_t to);

#endif
