/* What the tests of the session scripts share: one session, its keys, and its calls. */
#ifndef RLOCKD_TESTS_SCRIPTS_SESSION_HOME_H
#define RLOCKD_TESTS_SCRIPTS_SESSION_HOME_H

#include "harness.h"

#define SID "6b1f0a3e-54d5-5c37-9a53-1d2f0e6f7a01"
#define SESSION "rlockd:session:{" SID "}"
#define NOTES "rlockd:session-leases:{" SID "}"
#define DUE "rlockd:session-due:{" SID "}"
#define LOST "rlockd:session-lost:{" SID "}"
#define HOME KEYS(SESSION, NOTES, DUE)
/* What is there of an open session without leases. */
#define expect_empty_home()                                                                    \
    do {                                                                                       \
        expect_command("3", "EXISTS %s %s %s", SESSION, NOTES, DUE);                           \
        expect_command("[]", "HKEYS %s", NOTES);                                               \
        expect_command("[]", "ZRANGE %s 0 -1", DUE);                                           \
    } while (0)
#define REF "0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c11 orders/42"
#define OTHER_REF "0aa1f2d4-7c1e-5b0f-8f39-2b7d5f0f1c22 \norders/1\norders/2"

redisReply *session_open(const char *ttl_ms);
redisReply *session_bind(const char *ref, const char *attempt, const char *due_ms);
redisReply *session_unbind(const char *ref, const char *attempt); /* NULL: all */
redisReply *session_settle(const char *ref, const char *verdict);
/* The verdict of a visit that was told at `seen_ms` (epoch ms) that the lease is due. */
redisReply *session_settle_seen(int64_t seen_ms, const char *ref, const char *verdict);
redisReply *session_keep_alive(const char *age_ms);
/* `forget`: a ref, or NULL. */
redisReply *session_end(const char *reason, const char *released, const char *forget);
redisReply *session_due(void);
/* Settles a marked lease that was renewed, in a visit to a session with this deadline. */
redisReply *session_settle_marked(const char *ref, int64_t deadline_ms);
/* The session's deadline is over, and nobody has noticed. */
void session_overdue(void);
/* A key lasts as long as the session: until its deadline and the window after it. */
void expect_lasts(const char *key, int64_t ms);

/* Redis has no memory left until memory_is_back(). */
void memory_is_short(void);
void memory_is_back(void);

/* Runs the tests on one server and on a cluster. Those without memory run on one server only:
 * on a cluster the harness puts a first line before the scripts which changes what Redis allows
 * them. */
#define run_on_both(tests, memory_tests)                                                       \
    (cmocka_run_group_tests_name("one server", tests, redis_set_up, redis_tear_down) +         \
     cmocka_run_group_tests_name("memory", memory_tests, redis_set_up, redis_tear_down) +      \
     cmocka_run_group_tests_name("cluster", tests, redis_set_up_cluster, redis_tear_down))

#endif
