/* The data of the simulated Redis: keys with strings, hashes, lists and sorted sets. */
#ifndef RLOCKD_TESTS_SIM_KEYSPACE_H
#define RLOCKD_TESTS_SIM_KEYSPACE_H

#include <uthash.h>

#include "tests/sim/bytes.h"

enum value_type { VALUE_STRING, VALUE_HASH, VALUE_LIST, VALUE_ZSET, VALUE_TYPES };

/* A field with its value; an element of a list; a member with its score; or the text of a
 * string. */
struct item {
    struct bytes text, value;
    double score;
};

enum { NO_END = -1 };

struct value {
    UT_hash_handle hh;
    enum value_type type;
    int64_t end_ms; /* in ms of Redis' clock; NO_END: the key has no TTL */
    struct item *items;
    size_t count, size;
    size_t key_len;
    char key[];
};

struct keyspace {
    struct value *values;
};

/* NULL: there is none. A key whose time is over at `now_ms` goes away in this call. */
struct value *keyspace_find(struct keyspace *keyspace, struct bytes key, int64_t now_ms);
struct value *keyspace_make(struct keyspace *keyspace, struct bytes key, enum value_type type);
void keyspace_drop(struct keyspace *keyspace, struct value *value);
/* All keys whose time is over. */
void keyspace_expire(struct keyspace *keyspace, int64_t now_ms);
/* To another keyspace, which has no such key. */
void keyspace_move(struct keyspace *from, struct keyspace *to, struct value *value);
void keyspace_clear(struct keyspace *keyspace);
struct keyspace keyspace_copy(const struct keyspace *keyspace);

/* Index of the item with this text, or -1. */
long value_find(const struct value *value, struct bytes text);
/* Both texts are copied; at `at`, which moves those behind. */
struct item *value_insert(struct value *value, size_t at, struct bytes text);
void value_remove(struct value *value, size_t at);
void item_set_value(struct item *item, struct bytes value);
/* The place of a member with this score in a sorted set. */
size_t value_place(const struct value *value, struct bytes text, double score);

#endif
