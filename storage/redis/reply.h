/* Replies of Redis: their values, and the meaning of errors. */
#ifndef RLOCKD_STORAGE_REDIS_REPLY_H
#define RLOCKD_STORAGE_REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum redis_outcome {
    REDIS_DONE,    /* executed; there is a reply */
    REDIS_REFUSED, /* certainly not executed */
    REDIS_UNKNOWN  /* it is unknown whether the command was executed */
};

enum redis_refusal {
    REDIS_NOT_REFUSED,
    REDIS_REFUSED_UNAVAILABLE, /* loading, read-only, busy, not enough replicas, … */
    REDIS_REFUSED_OUT_OF_MEMORY,
    REDIS_REFUSED_WRONG_TYPE, /* a key holds another type than the command is for */
    REDIS_REFUSED_PERMISSION,
    REDIS_QUARANTINED,   /* the server grants no lease so soon after its start; of a quorum too
                            many servers */
    REDIS_NOT_REPLICATED /* of REDIS_UNKNOWN: executed, and too few replicas have it */
};

/* A value of a reply: a text, an integer, nil, or an array of values. Readers get 0, NULL or an
 * empty text for a wrong type or index: callers check the values that they use. */
struct redis_value;

size_t value_count(const struct redis_value *value);
const struct redis_value *value_at(const struct redis_value *value, size_t i);
/* True also for a missing value. */
bool value_is_nil(const struct redis_value *value);
bool value_is_integer(const struct redis_value *value);
/* Of an integer, or of a text that begins with its digits. */
int64_t value_integer(const struct redis_value *value);
/* With a NUL behind its `len` bytes. */
const char *value_text(const struct redis_value *value, size_t *len);

/* The error that Redis sent; empty: the value is none. Only to be sorted, never to be shown. */
const char *value_error(const struct redis_value *value);

/* The meaning of an error reply, from its first word (Redis ≥ 7) or from within the text that
 * Redis 6.2 wraps around a script's error. */
enum redis_outcome redis_sort_error(const char *error, enum redis_refusal *refusal);

/* Whether a node of a cluster has refused a script because the slot of the keys is moving to or
 * from the node. A script in its form for clusters has then changed no key, because its first
 * command was refused. */
bool redis_is_moving(const char *error);

/* Whether a server has refused or ended a WAIT because it has become a replica. */
bool redis_is_wait_of_replica(const char *error);

/* The part of an error that begins with its word, also where Redis 6.2 wraps a script's error.
 */
const char *redis_error_cause(const char *error);

#endif
