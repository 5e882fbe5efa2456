/* A call of Redis as the stores write it, before its server is chosen: a script with its keys
 * and arguments, or a plain command; and the tag that decides the server. And the script that
 * a new connection is tried with. */
#ifndef RLOCKD_STORAGE_REDIS_SCRIPT_CALL_H
#define RLOCKD_STORAGE_REDIS_SCRIPT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/text.h"
#include "storage/redis/script.h"

enum {
    SCRIPT_KEYS_MAX = 128, /* four keys of each of 32 locks */
    SCRIPT_ARGS_MAX = 128, /* a batch of 60 refs with a verdict each, and a few more */
    SCRIPT_NUMBERS_MAX = 8
};

struct script_text {
    const char *text;
    size_t len;
};

/* KEYS and ARGV, each set by its position (build/gen/script_args.h). An argument that is not
 * set is empty, and is not sent when no argument behind it is set. The texts live where the
 * caller keeps them. */
struct script_args {
    size_t key_count, count; /* of KEYS, of ARGV */
    size_t number_count;
    struct script_text keys[SCRIPT_KEYS_MAX];
    struct script_text args[SCRIPT_ARGS_MAX];
    char numbers[SCRIPT_NUMBERS_MAX][TEXT_INT64_SIZE];
};

void args_init(struct script_args *args);
void args_key(struct script_args *args, size_t at, const char *text, size_t len);
void args_text(struct script_args *args, size_t at, const char *text, size_t len);
void args_string(struct script_args *args, size_t at, const char *text);
void args_number(struct script_args *args, size_t at, int64_t number);

/* A copy with its texts, in one block that the caller frees. Out of memory ends the process. */
struct script_args *args_copy(const struct script_args *args);
/* The bytes of such a block, and the same in a block of the caller's. */
size_t args_size(const struct script_args *args);
struct script_args *args_copy_to(void *memory, const struct script_args *args);

/* The part of a key or channel that Redis Cluster hashes: the text in its first pair of braces,
 * or the whole key. Keys with the same tag are on one node. Points into the key. */
struct redis_tag {
    const char *text;
    size_t len;
};

struct redis_tag redis_tag_of(const char *key, size_t len);

struct script_call {
    enum script script;
    struct redis_tag tag;
    const struct script_args *args;
    /* `args` as Redis reads them; NULL: not made. See topology_share_script(). */
    const char *formatted;
    size_t formatted_len;
    /* Sent as EVAL: a script that Redis has forgotten is sent twice, and a call that was made
     * after it may run before it. */
    bool is_in_order;
};

/* The call runs where its first key is; each script touches keys of that one tag only. Every
 * key must be set. */
struct script_call script_call_make(enum script script, const struct script_args *args);

/* Keys of one slot, at least one. */
struct redis_probe_keys {
    const char *const *names;
    size_t count;
};

/* The scripts that a new connection runs to check the permissions of its user and the layout of
 * the data: probe.lua runs on the keys of each slot, one slot after the other, and once on the
 * channels. */
struct redis_probe {
    const struct redis_probe_keys *keys;
    size_t slot_count;
    const char *const *channels;
    size_t channel_count;
    /* A hash. If it has a field `layout`, no connection is made where that is not `layout`.
     * NULL: it is not known yet. */
    const char *layout_key;
    int layout;
    unsigned edition; /* another one when the keys have changed, also during the checks */
};

/* A command without a script: its name and its arguments. */
struct redis_command {
    size_t argc;
    const char *const *argv;
    const size_t *lens;
};

#endif
