/* The requests of an acquire and release cycle as bytes, for rlockd and for those that it is
 * measured against. */
#ifndef RLOCKD_TESTS_BENCH_LOAD_REQUEST_H
#define RLOCKD_TESTS_BENCH_LOAD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/bench/load_client.h"

/* DIALECT_LOOK: to rlockd, and each half of a cycle is a look at the lock. */
enum load_dialect { DIALECT_RLOCKD, DIALECT_LOOK, DIALECT_WEBDIS, DIALECT_ETCD, DIALECT_BARE };
enum load_step { STEP_ACQUIRE, STEP_RELEASE, STEP_COUNT };
/* What contenders of rlockd take turns at. */
enum load_kind { LOAD_LOCK, LOAD_FAIR, LOAD_READ, LOAD_WRITE, LOAD_PERMIT };
enum { LOAD_REQUEST_SIZE = 768, LOAD_TOKEN_LEN = 36 };

struct load_peer {
    enum load_dialect dialect;
    const char *acquire_sha, *release_sha; /* webdis: the scripts */
    long long lease;                       /* etcd: the lease that every lock hangs on */
    const char *session; /* rlockd: whose leases they are, kept by the watchdog; NULL: none */
};

/* One request, ready to be sent but for its token, which is patched in. */
struct load_request {
    size_t len;
    char *token; /* NULL: has none */
    int status;  /* of a good answer */
    char text[LOAD_REQUEST_SIZE];
};

/* False: no such dialect. */
bool load_dialect_find(const char *name, enum load_dialect *dialect);
/* One half of a cycle on the lock `name`. */
void load_request_make(struct load_request *request, const struct load_peer *peer,
                       enum load_step step, const char *name);
/* A turn at the lock `name` of rlockd, or at the one permit of a semaphore: a PUT that waits
 * for so long, and the DELETE that ends the turn. */
void load_request_take(struct load_request *request, enum load_kind kind, const char *name,
                       long wait_ms);
void load_request_give(struct load_request *request, enum load_kind kind, const char *name);
/* PUT on rlockd that waits for so long. */
void load_request_wait(struct load_request *request, const char *name, long wait_ms);
/* A session of rlockd whose token is patched in, and a keep-alive of one, which has no token
 * to be patched. */
void load_request_open(struct load_request *request);
void load_request_keep_alive(struct load_request *request, const char *session_id,
                             const char *session_token);
/* A GET, of rlockd's metrics for example. */
void load_request_get(struct load_request *request, const char *target);
/* A fresh token, for the next lease, and how a request gets it. */
void load_token_next(char token[LOAD_TOKEN_LEN + 1]);
void load_request_set_token(struct load_request *request, const char *token);
/* Ends the program when the answer is not the good one. */
void load_check(const struct load_peer *peer, const struct load_request *request,
                const struct load_answer *answer);

#endif
