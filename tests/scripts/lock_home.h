/* What the tests of the scripts of a lock's home share: keys, records, and calls. */
#ifndef RLOCKD_TESTS_SCRIPTS_LOCK_HOME_H
#define RLOCKD_TESTS_SCRIPTS_LOCK_HOME_H

#include "session_home.h"

#define A "11111111-1111-5111-8111-111111111111"
#define B "22222222-2222-5222-8222-222222222222"
#define C "33333333-3333-5333-8333-333333333333"
#define JAVA "44444444-4444-4444-8444-444444444444:1"
#define RECORD(id) "rlockd:lease:{jobs}:" id
#define COUNTER "redisson_lock_token:{jobs}"
#define QUEUE "redisson_lock_queue:{jobs}"
#define TIMES "redisson_lock_timeout:{jobs}"
#define PLACES "rlockd:places:{jobs}"
#define WAITERS "rlockd:waiters:{jobs}"
#define FORCED "rlockd:forced:{jobs}"
#define OWNER "rlockd:owner:{jobs}"
#define CHANNEL "redisson_lock__channel:{jobs}"
#define RW_CHANNEL "redisson_rwlock:{jobs}"
#define WINDOW "60000"
#define LONGEST "31622400000" /* the longest lease: 366 days */
#define LONGEST_MS INT64_C(31622400000)
/* Two locks of one slot. */
#define P1 "{t}:a"
#define P2 "{t}:b"
#define SET_RECORD(lock, id) "rlockd:lease:" lock ":" id ":m"

/* A request for a lease; what is left out: of kind lock, 30 s, neither session nor owner, no
 * wait, with a token of the client's that comes for the first time. */
struct ask {
    const char *id, *kind, *session, *owner, *attempt, *ttl, *wait, *mode, *registered, *lost;
    const char *unseen, *own_listeners, *timed; /* of a hand-over */
};

#define ask(...) lock_ask(&(struct ask){__VA_ARGS__})
#define ask_set(...) set_ask(&(struct ask){__VA_ARGS__})
/* The lock is "jobs". */
redisReply *lock_ask(const struct ask *ask);
/* The locks are P1 and P2. */
redisReply *set_ask(const struct ask *ask);

redisReply *lock_renew(const char *id, const char *ttl);
redisReply *lock_release(const char *id);
/* Releases a lease, and hands the lock over to a waiter if it may have it. */
redisReply *lock_hand_over(const char *id, const struct ask *next);
#define hand_over(id, ...) lock_hand_over(id, &(struct ask){__VA_ARGS__})
redisReply *lock_withdraw(const char *id, const char *attempt, const char *keep_place);
redisReply *lock_force(const char *token);
redisReply *lock_force_read(const char *token, const char *holder);
/* The fencing token of a reply to a grant; fails for any other reply. */
const char *token_of(redisReply *reply);

redisReply *set_renew(const char *id, const char *ttl);
redisReply *set_release(const char *id);
redisReply *set_withdraw(const char *id, const char *attempt);
redisReply *set_claim(const char *id);
redisReply *set_watch(const char *id);
redisReply *set_end(const char *id);

#endif
