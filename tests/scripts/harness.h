/* Runs the embedded Lua scripts on a private redis-server: KEYS and ARGV in, the reply and the
 * keys out. A test that fails leaves by cmocka's fail(); all that is returned here is freed by
 * the harness after the test. */
#ifndef RLOCKD_TESTS_SCRIPTS_HARNESS_H
#define RLOCKD_TESTS_SCRIPTS_HARNESS_H

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "storage/redis/script.h"

/* Set-ups of a cmocka group: a redis-server on a unix socket; the second one is a cluster of
 * one node that has all slots, where a script that touches a key outside the slot of its KEYS
 * fails (on Redis 7.0 and newer); to the third one scripts are sent as to a node of a quorum.
 */
int redis_set_up(void **state);
int redis_set_up_cluster(void **state);
int redis_set_up_node(void **state);
/* Their teardown. */
int redis_tear_down(void **state);
/* Set-up of a single test: an empty Redis. */
int redis_clear(void **state);
/* Teardown of a single test. */
int replies_free(void **state);

#define SCRIPT_TEST(function)                                                                  \
    cmocka_unit_test_setup_teardown(function, redis_clear, replies_free)

/* The texts of a call, NULL-terminated. */
#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_ARGS ((const char *const[]){NULL})

/* Runs a script. Fails when Redis cannot be reached; an error is a reply. */
redisReply *run(enum script script, const char *const *keys, const char *const *args);
/* For many calls of a script that has been run before: sends one, and reads the replies of the
 * `count` calls that were sent first. Fails when one is an error. */
void run_later(enum script script, const char *const *keys, const char *const *args);
void read_replies(size_t count);
/* Runs a command, in the words of hiredis' redisCommand(). */
redisReply *command(const char *format, ...);

/* A reply as text: a text as it is, an integer in decimal, nil as "nil", an error after
 * "error: ", an array in brackets and commas: [granted, 17, [a, b]]. */
const char *reply_text(const redisReply *reply);
/* Element `at` of an array; fails when there is none. */
redisReply *reply_at(const redisReply *reply, size_t at);
/* An integer, also where it came as text. */
int64_t reply_integer(const redisReply *reply);

/* Compares reply_text() with `pattern`, in which each `*` stands for any text. */
#define expect(reply, pattern) expect_at(reply, pattern, __FILE__, __LINE__)
/* The same for a command: expect_command("1", "EXISTS %s", key). */
#define expect_command(pattern, ...) expect(command(__VA_ARGS__), pattern)
void expect_at(const redisReply *reply, const char *pattern, const char *file, int line);
void expect_text_at(const char *printed, const char *pattern, const char *file, int line);

/* Text made by printf()'s rules. */
const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Redis' clock in epoch ms. */
int64_t redis_now_ms(void);
/* Ends the TTL of a key: with a TTL of 0 the key is there for up to a millisecond more. */
void let_end_now(const char *key);
/* Waits until a key is gone, for at most ten seconds. */
void wait_until_gone(const char *key);

/* A second connection that listens on a channel: whatever is published from now on. */
void listen_to(const char *channel);
/* Another connection that listens, and is not asked for what it hears. */
void listen_beside(const char *channel);
/* The next message, as "<channel> <message>"; NULL when no other was published until now. */
const char *next_message(void);

#endif
