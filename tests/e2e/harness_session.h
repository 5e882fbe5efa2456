/* What the tests of sessions share, on top of harness.h: sessions, front ends that come back on
 * their port, and a client for threads. */
#ifndef E2E_HARNESS_SESSION_H
#define E2E_HARNESS_SESSION_H

#include <curl/curl.h>

#include "harness.h"

enum { UUID_SIZE = 37 };

/* The watchdog timeout of most front ends here, as a flag and as a number: 600 ms, so that
 * faults bite, and as much more as E2E_PATIENCE says, for a busy machine renews late. */
#define WATCHDOG_FLAGS "--watchdog-timeout-ms", watchdog_text()
const char *watchdog_text(void);
int watchdog_ms(void);
/* Since late_ms() was `before` the machine was so late that leases may have lapsed which the
 * watchdog renews, also while the end of their session was worked off. */
bool may_have_lapsed(int64_t before);

/* ---- sessions ---- */

struct session {
    const char *token, *id;
    const char *header; /* Session-Token: ... */
};

/* Fails unless it was opened now; `query` may be NULL. */
struct session session_new(struct front *fe, const char *query);
struct reply *session_open(struct front *fe, const char *token, const char *query);
struct reply *session_look(struct front *fe, const char *id);
struct reply *session_end(struct front *fe, const struct session *s);
struct reply *keep_alive(struct front *fe, const struct session *s, const char *query);
struct reply *keep_alive_body(struct front *fe, const struct session *s, const char *body);
struct call *keep_alive_hang(struct front *fe, const struct session *s, int wait_ms);
/* The same, and it has reached the world's Redis. */
struct call *keep_alive_park(struct front *fe, const struct session *s, int wait_ms);
struct call *keep_alive_park_at(struct redis *redis, struct front *fe, const struct session *s,
                                int wait_ms);
/* It has to stand there as a token of the server's own making: no log may hold it, either. */
void token_watch(struct world *w, const char *token);

/* ---- leases of a session ---- */

struct reply *session_put(struct front *fe, const struct session *s, const char *lock,
                          const char *token, const char *query);
struct call *session_call_put(struct front *fe, const struct session *s, const char *lock,
                              const char *token, const char *query);
/* Granted now to a fresh token, which is given back. */
const char *session_hold(struct front *fe, const struct session *s, const char *lock,
                         const char *query);
struct reply *force_unlock(struct front *fe, const char *lock);

/* What a keep-alive or a look says of a lock; NULL: nothing. */
json_t *lease_of(const struct reply *reply, const char *lock);
json_t *loss_of(const struct reply *reply, const char *lock);
size_t leases_len(const struct reply *reply);
size_t losses_len(const struct reply *reply);
#define expect_loss(reply, lock, reason) expect_loss_at(reply, lock, reason, __FILE__, __LINE__)
void expect_loss_at(const struct reply *reply, const char *lock, const char *reason,
                    const char *file, int line);
/* Open, holds `leases`, and lost nothing. */
#define expect_alive(reply, leases) expect_alive_at(reply, leases, __FILE__, __LINE__)
void expect_alive_at(const struct reply *reply, size_t leases, const char *file, int line);
/* One hold of the lock's only holder, and the number of its grant; fails when it is free. */
json_int_t fence_of(struct front *fe, const char *lock);

/* ---- front ends that come and go ---- */

/* kill -9 and back on the same port with these flags after --listen and --redis, ready. Not
 * for the front ends of the plan. */
void front_return(struct front *fe, const char *const *flags);

/* ---- a client for a thread of its own: it touches nothing of the world ---- */

struct rest {
    CURL *curl;
    char *answer;
    size_t answer_len, answer_max;
    json_t *json; /* of the last answer, NULL when it was none */
    char error[256];
};

void rest_init(struct rest *rest);
void rest_free(struct rest *rest);
/* The status; 0: no answer. Tokens and body may be NULL. */
int rest_ask(struct rest *rest, int port, const char *method, const char *path,
             const char *lease_token, const char *session_token, const char *body);
json_int_t rest_int(const struct rest *rest, const char *member);
/* "" when it is absent. */
const char *rest_str(const struct rest *rest, const char *member);
size_t rest_len(const struct rest *rest, const char *member);
/* A random UUID that no log is searched for. */
void uuid_make(char out[UUID_SIZE]);

#endif
