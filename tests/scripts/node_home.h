/* What the tests of the scripts of a node share: a node of a quorum with its marker, and calls
 * about the lock "jobs". Tokens are small numbers here: they stand for so many µs more than
 * node_base_us(), and 0 for none. */
#ifndef RLOCKD_TESTS_SCRIPTS_NODE_HOME_H
#define RLOCKD_TESTS_SCRIPTS_NODE_HOME_H

#include "lock_home.h"

#define MARKER "rlockd:marker"
#define QUARANTINE "120000"
/* Since when the node's process serves. */
#define PROCESS_AGE_MS 600000

/* The node is empty, and its process old enough to vote. */
int node_clear(void **state);
#define NODE_TEST(function) cmocka_unit_test_setup_teardown(function, node_clear, replies_free)

/* The node's process serves for so long. */
void node_process_is(int64_t age_ms);
const char *node_process(void);
int64_t node_base_us(void);
/* A token as it is sent to Redis: "0" for 0. */
const char *node_token(int64_t token);
/* The token of a text; fails for any other text. */
int64_t node_number(const char *text);

/* A reply as reply_text(), with tokens as small numbers. */
#define expect_node(reply, pattern)                                                            \
    expect_text_at(node_text(reply_text(reply)), pattern, __FILE__, __LINE__)
const char *node_text(const char *text);

/* A vote for a lease; what is left out as in struct ask; attempt "w.1", round 1. */
struct vote {
    const char *id, *kind, *session, *attempt, *ttl, *wait, *mode, *registered, *blocking;
    int64_t token;
    int round;
};

#define vote(...) node_vote(&(struct vote){__VA_ARGS__})
redisReply *node_vote(const struct vote *vote);
/* The locks are P1 and P2. */
#define vote_set(...) node_vote_set(&(struct vote){__VA_ARGS__})
redisReply *node_vote_set(const struct vote *vote);
redisReply *node_claim(const char *id, const char *kind, const char *session, int64_t token);
redisReply *node_withdraw(const char *id, const char *attempt, const char *quiet);
redisReply *node_lose(const char *id, const char *attempt);
/* A force-unlock of leases up to this token. */
redisReply *node_force(int64_t up_to);
/* `left_ms`: until the deadline. */
redisReply *node_repair(const struct vote *lease, int64_t left_ms);
#define repair(left_ms, ...) node_repair(&(struct vote){__VA_ARGS__}, left_ms)
/* The session of SID gets a deadline that is so many ms away. */
redisReply *node_repair_session(int64_t left_ms);

#endif
