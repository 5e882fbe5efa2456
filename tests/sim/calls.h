/* The requests of the API, each recorded with its answer. */
#ifndef RLOCKD_TESTS_SIM_CALLS_H
#define RLOCKD_TESTS_SIM_CALLS_H

#include "server/base/token.h"
#include "tests/sim/http.h"
#include "tests/sim/world.h"

enum result { RESULT_OK, RESULT_NOT_DONE, RESULT_ENDED, RESULT_UNKNOWN, RESULT_ABANDONED };

struct caller {
    char name[48];
    struct chance chance;
};

struct session {
    char token[TOKEN_TEXT_SIZE], public_id[TOKEN_TEXT_SIZE];
    int64_t ttl_ms;
    bool refuses; /* on_deadlock */
};

/* One token of one client, and the requests with it. */
struct lease {
    struct caller *caller;
    const char *kind;
    const char *locks[LOCKS_OF_A_SET];
    size_t lock_count;
    const struct session *session; /* NULL: none */
    char owner[16];                /* empty: none */
    char token[TOKEN_TEXT_SIZE], id[TOKEN_TEXT_SIZE];
    int64_t fencing[LOCKS_OF_A_SET];
    int64_t remaining_ms, held_until_ns;
    struct front *front; /* that requests without one of their own go to; NULL: any */
    int status;          /* of the last answer */
};

/* How one request is made. -1: the field is not sent. */
struct how {
    int64_t ttl_ms, wait_ms, abandon_ns;
    bool is_sweep, is_double;
    bool contends, is_bystander; /* what rules L7 and L8 look at */
    int refusal;                 /* a status that is right here, beside the usual ones */
    struct front *front;         /* NULL: any */
};

void caller_init(struct caller *caller, const char *name, int number);
void make_token(struct chance *chance, char token[TOKEN_TEXT_SIZE]);
struct lease lease_make(struct caller *caller, const char *kind, const char *lock,
                        const struct session *session);

enum result ask_acquire(struct lease *lease, const struct how *how);
enum result ask_renew(struct lease *lease, int64_t ttl_ms);
enum result ask_release(struct lease *lease);
/* Writes to what the locks protect. */
void lease_use(const struct lease *lease);

enum result ask_session_open(struct caller *caller, struct session *session);
enum result ask_keep_alive(struct caller *caller, struct session *session, int64_t wait_ms);
enum result ask_session_end(struct caller *caller, struct session *session);
enum result ask_force_unlock(struct caller *caller, const char *lock);
void probe_life(struct front *front);

/* A request that no rule of the checker looks at but those for any answer. */
struct plain {
    const char *method, *path;               /* after /v1/ */
    const char *lease_token, *session_token; /* NULL: none */
    char idempotency_key[TOKEN_TEXT_SIZE];   /* empty: none */
    struct how how;
    const char *member;
    int64_t number; /* out: that member of the answer's body */
    int status;     /* out */
};

enum result ask_plain(struct caller *caller, struct plain *plain);
/* Writes down what GET shows of a lock. */
void ask_look(struct caller *caller, const char *lock);

#endif
