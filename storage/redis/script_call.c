/* Requests to Redis as the stores write them. */
#include "storage/redis/script_call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void args_init(struct script_args *args)
{
    args->key_count = 0; /* the rest is written before it is read */
    args->count = 0;
    args->number_count = 0;
}

void args_key(struct script_args *args, size_t at, const char *text, size_t len)
{
    assert(at < SCRIPT_KEYS_MAX);
    while (args->key_count < at)
        args->keys[args->key_count++] = (struct script_text){0};
    if (args->key_count == at)
        args->key_count++;
    args->keys[at] = (struct script_text){text, len};
}

void args_text(struct script_args *args, size_t at, const char *text, size_t len)
{
    assert(at < SCRIPT_ARGS_MAX);
    while (args->count < at)
        args->args[args->count++] = (struct script_text){"", 0};
    if (args->count == at)
        args->count++;
    args->args[at] = (struct script_text){text, len};
}

void args_string(struct script_args *args, size_t at, const char *text)
{
    args_text(args, at, text, strlen(text));
}

void args_number(struct script_args *args, size_t at, int64_t number)
{
    assert(args->number_count < SCRIPT_NUMBERS_MAX);
    char *text = args->numbers[args->number_count++];
    args_text(args, at, text, text_format_int64(text, number));
}

static size_t texts_len(const struct script_text *texts, size_t count)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++)
        len += texts[i].len + 1;
    return len;
}

/* Returns the end of the texts. */
static char *copy_texts(char *out, struct script_text *to, const struct script_text *texts,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(out, texts[i].text, texts[i].len);
        out[texts[i].len] = '\0';
        to[i] = (struct script_text){out, texts[i].len};
        out += texts[i].len + 1;
    }
    return out;
}

size_t args_size(const struct script_args *args)
{
    return sizeof(*args) + texts_len(args->keys, args->key_count) +
           texts_len(args->args, args->count);
}

struct script_args *args_copy(const struct script_args *args)
{
    void *memory = malloc(args_size(args));

    assert(memory != NULL);
    return args_copy_to(memory, args);
}

struct script_args *args_copy_to(void *memory, const struct script_args *args)
{
    struct script_args *copy = memory;

    args_init(copy);
    copy->key_count = args->key_count;
    copy->count = args->count;
    char *out = copy_texts((char *)(copy + 1), copy->keys, args->keys, args->key_count);
    copy_texts(out, copy->args, args->args, args->count);
    return copy;
}

struct redis_tag redis_tag_of(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);
    const char *close = open ? memchr(open, '}', len - (size_t)(open - key)) : NULL;

    /* Without a pair of braces, or with an empty first pair, the whole key is the tag. */
    if (close == NULL || close == open + 1)
        return (struct redis_tag){key, len};
    return (struct redis_tag){open + 1, (size_t)(close - open - 1)};
}

struct script_call script_call_make(enum script script, const struct script_args *args)
{
    assert(args->key_count > 0);
    for (size_t i = 0; i < args->key_count; i++)
        assert(args->keys[i].text != NULL);
    return (struct script_call){.script = script,
                                .tag = redis_tag_of(args->keys[0].text, args->keys[0].len),
                                .args = args};
}
