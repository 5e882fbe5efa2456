/* Values of Redis, made up of the input: words that some reader looks for, and anything else.
 * Include the header once a program. */
#ifndef RLOCKD_TESTS_FUZZ_VALUES_H
#define RLOCKD_TESTS_FUZZ_VALUES_H

#include <hiredis/hiredis.h>

#include "storage/redis/script_call.h"
#include "tests/fuzz/fuzz.h"

enum { DEPTH_MAX = 4, ELEMENTS_MAX = 20 };

/* Of the script of a quorum that is answered: a value may be a text that it has, or a word of
 * its servers. NULL: it is no such script. */
static const struct script_args *echoed;

/* Words and texts that some reader looks for. */
static const char *const words[] = {
    "granted",
    "waits",
    "noted",
    "1763800000000 1 0 lock 6ba7b810-9dad-51d1-80b4-00c04fd430c8:0 orders\n",
    "held",
    "busy",
    "released",
    "ended",
    "reused",
    "wrong-kind",
    "upgrade",
    "too-many",
    "unknown",
    "waiting",
    "gone",
    "lost",
    "open",
    "idle",
    "opened",
    "expired",
    "forced",
    "session-ended",
    "wait-too-long",
    "full",
    "ends",
    "created",
    "exists",
    "deleted",
    "missing",
    "looked",
    "read",
    "write",
    "lock",
    "fair",
    "permit",
    "free",
    "stale",
    "unlocked",
    "spent",
    "kept",
    "known",
    "acquired",
    "drained",
    "replayed",
    "1",
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "1763800000000000",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8:0",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8:0:write",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8 orders",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8 \norders\nstock",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8:owner",
    "\norders\nstock",
    "expired\nlock",
    "1763800000000 abcd.1 abcd.2",
    "held\n\nabcd.1\n\n30000\nnote\n6ba7b810-9dad-51d1-80b4-00c04fd430c8\nname\n7\n1\nlock\n",
    "waiting\nshared\nabcd.1\n1763800000000\n500\n\n\n\n\n\nfair\n",
    "held\n\n\n\n500\n\n6ba7b810-9dad-51d1-80b4-00c04fd430c8\n\n7\n1\nread\nowner",
    "6ba7b810-9dad-51d1-80b4-00c04fd430c8:owner\nlock\nname",
};

/* The words that the replies of a quorum's servers begin with, and a few other values. */
static const char *const quorum_words[] = {
    "accepted",   "held",      "lapsed",  "busy",     "low",      "clock",
    "quarantine", "spent",     "reused",  "claimed",  "gone",     "renewed",
    "released",   "ended",     "unknown", "free",     "unlocked", "stale",
    "unbound",    "restarted", "search",  "open",     "opened",   "expired",
    "wrong-kind", "too-many",  "lost",    "repaired", "1",        "2",
    "30000",      ""};

static redisReply *make_value(struct fuzz_input *input, int depth);

static redisReply *new_value(int type)
{
    redisReply *value = calloc(1, sizeof(*value));

    CHECK(value != NULL);
    value->type = type;
    return value;
}

static redisReply *make_text(int type, char *text, size_t len)
{
    redisReply *value = new_value(type);

    value->str = text;
    value->len = len;
    return value;
}

static redisReply *make_word(const char *word)
{
    size_t len = strlen(word);
    char *copy = malloc(len + 1);

    CHECK(copy != NULL);
    memcpy(copy, word, len + 1);
    return make_text(REDIS_REPLY_STRING, copy, len);
}

static redisReply *make_bytes(struct fuzz_input *input, int type)
{
    size_t len = fuzz_byte(input);

    if (len > input->size)
        len = input->size;
    return make_text(type, fuzz_take(input, len), len);
}

static redisReply *make_integer(struct fuzz_input *input)
{
    redisReply *value = new_value(REDIS_REPLY_INTEGER);
    uint8_t how = fuzz_byte(input);

    value->integer = (int8_t)how;
    if (how == 0x7F || how == 0x80) {
        uint64_t number = 0;
        for (int i = 0; i < 8; i++)
            number = number << 8 | fuzz_byte(input);
        value->integer = (int64_t)number;
    }
    return value;
}

static redisReply *make_array(struct fuzz_input *input, int depth)
{
    redisReply *value = new_value(REDIS_REPLY_ARRAY);

    value->elements = fuzz_byte(input) % (ELEMENTS_MAX + 1);
    value->element = calloc(value->elements + 1, sizeof(*value->element));
    CHECK(value->element != NULL);
    for (size_t i = 0; i < value->elements; i++)
        value->element[i] = make_value(input, depth + 1);
    return value;
}

/* A text that the call has: its fencing token, its record. */
static redisReply *make_echo(struct fuzz_input *input)
{
    const struct script_text *text = &echoed->args[fuzz_byte(input) % echoed->count];
    struct fuzz_input copied = {(const uint8_t *)text->text, text->len};

    return make_text(REDIS_REPLY_STRING, fuzz_take(&copied, text->len), text->len);
}

static redisReply *make_value(struct fuzz_input *input, int depth)
{
    uint8_t how = fuzz_byte(input);

    if (echoed != NULL && how >= 0xC0 && how < 0xE0 && echoed->count > 0)
        return make_echo(input);
    if (echoed != NULL && how >= 0x40 && how < 0x80)
        return make_word(
            quorum_words[(how - 0x40U) % (sizeof(quorum_words) / sizeof(quorum_words[0]))]);
    if (how >= 0x40 && how < 0xC0)
        return make_word(words[(how - 0x40U) % (sizeof(words) / sizeof(words[0]))]);
    switch (how & 7) {
    case 0:
        return new_value(REDIS_REPLY_NIL);
    case 1:
    case 2:
        return make_integer(input);
    case 3:
        return make_bytes(input, REDIS_REPLY_STRING);
    case 4:
        return make_bytes(input, REDIS_REPLY_STATUS);
    case 5:
        return make_bytes(input, REDIS_REPLY_ERROR);
    default:
        return depth < DEPTH_MAX ? make_array(input, depth) : make_integer(input);
    }
}

#endif
