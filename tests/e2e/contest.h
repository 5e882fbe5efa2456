/* A contest: the racers of racers.h fight for a few objects of one kind, in every manner of
 * asking. The table of the contests is in test_racer.c. */
#ifndef E2E_CONTEST_H
#define E2E_CONTEST_H

#include "harness_session.h"
#include "racers.h"
#include "racers_fair.h"

enum {
    CONTEST_RACERS = 32,
    CONTEST_OBJECTS_MAX = 8,
    CONTEST_WAYS_MAX = 3,
    CONTEST_TTL_MS = 60000 /* of the leases */
};

/* In which manners a client asks; each round takes one of those that its way has. */
enum manner {
    PATIENT,    /* waits until the object is granted */
    TRIES,      /* asks first without waiting */
    HURRIES,    /* waits for some ms, and goes */
    LEAVES,     /* the same, and says so by DELETE */
    RETURNS,    /* the same, and asks again with its token: a fair place is still there */
    HANGS_UP,   /* does not wait for the answer, and asks what became of the request */
    REPEATS,    /* sends each request of its lease twice */
    DOWNGRADES, /* a writer that goes on to read */
    MANNERS
};

#define CAN(manner) (1U << (manner))

/* A way to use an object. */
struct way {
    const char *query; /* what is asked for; NULL: this row is not there */
    int takes;         /* of the object's capacity */
    int share;         /* how often it is taken, among the ways of a contest */
    unsigned manners;  /* besides PATIENT */
};

struct contest {
    const char *name;  /* of its objects, which numbers follow */
    const char *kind;  /* the collection below /v1/ */
    const char *part;  /* of the object's path: what is acquired; or NULL */
    int objects, most; /* and of how many of them at once a client asks */
    int capacity;      /* how much of an object may be taken */
    bool is_counter;   /* no lease: an acquire and a release, each with an Idempotency-Key */
    bool is_fair;      /* clients get in in the order in which they stand in the queue */
    bool has_sessions; /* each client has one */
    struct way ways[CONTEST_WAYS_MAX];
};

/* What an object protects: two numbers that are plain on purpose, and differ while a client
 * that is alone in the object changes them. */
struct arena {
    _Atomic int taken;
    volatile long first, second;
    _Atomic json_int_t last_fence; /* of those that were alone */
    _Atomic long alone;
};

struct course {
    const struct contest *contest;
    struct arena arenas[CONTEST_OBJECTS_MAX];
    struct fair_watch *queues[CONTEST_OBJECTS_MAX]; /* of a fair contest */
    _Atomic long manners[MANNERS];                  /* rounds in this manner */
    _Atomic long entries, together, several, refusals, longest_ms;
    _Atomic int session_count;
    char sessions[CONTEST_RACERS][UUID_SIZE]; /* tokens */
};

/* One round of one client: it chooses a way and a manner, acquires, looks at what the objects
 * protect, and releases. Violations and odd answers are the racer's. */
void contest_round(struct racer *racer);

#endif
