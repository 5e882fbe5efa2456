/* A race: clients on two front ends, each a thread of its own, do the same thing again and
 * again until the time is over or something is wrong. */
#ifndef E2E_RACERS_H
#define E2E_RACERS_H

#include <stdatomic.h>

#include "harness_session.h"

struct race {
    int racers, seconds;
    struct racer *first; /* one after the other, while the race runs */
    _Atomic bool over;
    bool is_joined;
    _Atomic int violations, odd_answers;
    pthread_mutex_t mutex;
    char first_trouble[512];
};

struct racer {
    struct race *race;
    void *course; /* what the race is about */
    struct front *fe;
    unsigned seed;
    void (*round)(struct racer *racer);
    pthread_t thread;
    CURL *curl;
    char session[UUID_SIZE + 16]; /* a header that goes with each request; empty: none */
    char answer[4096];
    size_t answer_len;
};

/* The race takes so many seconds, and on a machine that is late longer, until it has shown
 * enough: `look`, which the thread of the test calls again and again meanwhile, says so. Fails
 * the test when there was a violation or an answer that nobody expected. */
void race_run(struct world *w, int racers, int seconds, void (*round)(struct racer *racer),
              void *course, bool (*look)(void *course));
/* No key is left in Redis but those that begin with `stays`, and ours that end in time. */
void race_check_remains(struct world *w, const char *stays, long long ttl_max_ms);

/* The status; 0: no answer within `timeout_ms`, which racer_patience() makes long. `path` is
 * below /v1/. */
long racer_ask(struct racer *racer, const char *method, const char *path, const char *header,
               int timeout_ms);
int racer_patience(void);
/* A member of the last answer; 0: there is none. */
json_int_t racer_answered(struct racer *racer, const char *member);
int racer_random(struct racer *racer, int below);
/* A little work, so that others come in between. */
void racer_dawdle(struct racer *racer);
void racer_odd(struct racer *racer, const char *what, long status);
void racer_violation(struct racer *racer, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
