/* One connection to Redis that keeps itself alive: connects, checks what it is connected to,
 * sends what was gathered once a turn of the loop, gives every command a deadline, sorts what
 * went wrong, and connects again. */
#ifndef RLOCKD_STORAGE_REDIS_H
#define RLOCKD_STORAGE_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/loop.h"
#include "server/metrics.h"
#include "storage/redis_url.h"
#include "storage/script.h"

struct redis;
struct redisReply;

enum {
    /* No answer for so long means that the connection is given up: hiredis 0.14 has no deadline
     * of its own. Redis itself answers BUSY only after 5 s of a slow script. */
    REDIS_DEADLINE_MS = 2000
};

enum redis_outcome {
    REDIS_DONE,    /* executed; there is a reply */
    REDIS_REFUSED, /* certainly not executed */
    REDIS_UNKNOWN  /* nobody can know */
};

enum redis_refusal {
    REDIS_NOT_REFUSED,
    REDIS_REFUSED_UNAVAILABLE, /* loading, read-only, busy, not enough replicas, … */
    REDIS_REFUSED_OUT_OF_MEMORY,
    REDIS_REFUSED_WRONG_TYPE, /* a key holds another type than the command is for */
    REDIS_REFUSED_PERMISSION
};

struct redis_result {
    enum redis_outcome outcome;
    enum redis_refusal refusal;
    const struct redisReply *reply; /* for REDIS_DONE; gone after the callback */
    int64_t sent_ns;                /* when the command was queued: before Redis could run it */
};

typedef void redis_done(void *arg, const struct redis_result *result);

struct redis_options {
    const struct redis_url *url;
    struct loop *loop;
    struct metrics *metrics;
    /* What the probe script runs on at connect, to learn what the user is not permitted: first
     * keys, then channels. NULL: a subscriber's connection, which is not probed. */
    const char *const *probe;
    size_t probe_keys, probe_channels;
    void (*up)(void *arg);
    void (*down)(void *arg); /* after every pending callback */
    void *arg;
};

/* Starts connecting; the options' pointers must outlive the connection. NULL: out of memory. */
struct redis *redis_new(const struct redis_options *options);
/* Pending callbacks come with REDIS_UNKNOWN; neither `up` nor `down` is called any more. */
void redis_free(struct redis *redis);

bool redis_is_up(const struct redis *redis);
/* Why it is not up, as one phrase for operators; never a raw error of Redis. */
const char *redis_down_reason(const struct redis *redis);
/* Gives the connection up and makes a new one. */
void redis_reconnect(struct redis *redis, const char *reason);
/* Gives it up for good. Outside of its callbacks: everything pending ends before it returns,
 * and what the callbacks ask then, too. */
void redis_stop(struct redis *redis);
/* A subscriber's connection has shown that it works: the next one that fails is tried again
 * soon. */
void redis_proven(struct redis *redis);

/* Queues a command. `done` comes exactly once, and later: REDIS_REFUSED when the connection is
 * not up. Arguments are copied. */
void redis_command(struct redis *redis, size_t argc, const char *const *argv,
                   const size_t *lens, redis_done *done, void *arg);
/* The same for a script (EVALSHA, and EVAL when Redis has forgotten it): `args` are its KEYS,
 * then its ARGV. */
void redis_script(struct redis *redis, enum script script, size_t key_count, size_t argc,
                  const char *const *args, const size_t *lens, redis_done *done, void *arg);

/* Pub/sub, for a connection that does nothing else (RESP2). Messages and acknowledgements of
 * all channels come to one callback. */
enum redis_push { REDIS_PUSH_SUBSCRIBED, REDIS_PUSH_UNSUBSCRIBED, REDIS_PUSH_MESSAGE };
typedef void redis_pushed(void *arg, enum redis_push push, const char *channel,
                          size_t channel_len, const char *payload, size_t payload_len);
void redis_on_push(struct redis *redis, redis_pushed *pushed, void *arg);
int redis_subscribe(struct redis *redis, const char *channel, size_t len)
    __attribute__((warn_unused_result));
int redis_unsubscribe(struct redis *redis, const char *channel, size_t len)
    __attribute__((warn_unused_result));

/* Reading a reply. A wrong type or index gives 0, NULL or an empty text: what Redis says is
 * checked where it is used. */
size_t redis_reply_count(const struct redisReply *reply);
const struct redisReply *redis_reply_at(const struct redisReply *reply, size_t i);
bool redis_reply_is_nil(const struct redisReply *reply);
bool redis_reply_is_integer(const struct redisReply *reply);
int64_t redis_reply_integer(const struct redisReply *reply);
const char *redis_reply_text(const struct redisReply *reply, size_t *len);

/* What an error reply means, from its first word (Redis ≥ 7) or from within the text that
 * Redis 6.2 wraps around a script's error. */
enum redis_outcome redis_sort_error(const char *error, enum redis_refusal *refusal);

#endif
