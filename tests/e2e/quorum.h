/* Independent servers of which a majority decides, each behind a proxy for each front end. */
#ifndef E2E_QUORUM_H
#define E2E_QUORUM_H

#include "harness.h"

enum { QUORUM_MAX = 5 };

struct quorum {
    struct world *world;
    int count;
    struct redis *server[QUORUM_MAX];
};

/* A front end, and its own way to each server. */
struct quorum_front {
    struct front *fe;
    struct proxy *proxy[QUORUM_MAX];
};

/* 3 or 5 servers that vote at once, as if they had run for long. */
struct quorum *quorum_start(struct world *w, int count);
/* The same, with a clock each that is so many seconds ahead. */
struct quorum *quorum_start_skewed(struct world *w, int count, const int *ahead_s);
/* As after the quarantine: the marker says that this process has run for long. */
void quorum_trust(struct redis *server);
/* The URL of the first `count` ways, redis-quorum:// or with TLS. */
const char *quorum_url(struct world *w, struct proxy *const *proxy, int count);
/* With further flags, NULL at the end; returns when all servers are up. */
struct quorum_front quorum_front(struct quorum *q, ...) __attribute__((sentinel));
/* The state of a server in /readyz; "" where there is none. */
const char *quorum_state(struct front *fe, int server);
bool quorum_all_up(struct front *fe);
/* Asks again while the outcome is unknown since a server was late by a second. */
struct reply *quorum_ask(struct front *fe, const char *method, const char *path,
                         const char *token);
/* A fresh token gets the lock, asked for in that way; `query` as "?ttl_ms=60000" or "". */
void quorum_hold(struct front *fe, const char *lock, const char *query);
/* At how many of the servers that answer the key is. */
int quorum_holds(const struct quorum *q, const char *key);
/* Without its data, as another process, which is in quarantine then. */
void quorum_empty(struct redis *server);

#endif
