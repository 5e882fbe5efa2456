/* Values in the form of hiredis' replies, in memory of our own. */
#include "storage/redis/reply_made.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

static redisReply *reply_of(struct redis_value *value)
{
    return (redisReply *)value;
}

static redisReply *make(int type)
{
    redisReply *reply = calloc(1, sizeof(*reply));

    assert(reply != NULL);
    reply->type = type;
    return reply;
}

static redisReply *make_text(int type, const char *text, size_t len)
{
    redisReply *reply = make(type);

    reply->str = malloc(len + 1);
    assert(reply->str != NULL);
    memcpy(reply->str, text, len);
    reply->str[len] = '\0';
    reply->len = len;
    return reply;
}

static redisReply *make_list(size_t count)
{
    redisReply *reply = make(REDIS_REPLY_ARRAY);

    reply->element = calloc(count + 1, sizeof(*reply->element));
    assert(reply->element != NULL);
    reply->elements = count;
    return reply;
}

static redisReply *copy(const redisReply *reply)
{
    redisReply *made;

    switch (reply->type) {
    case REDIS_REPLY_ARRAY:
        made = make_list(reply->elements);
        for (size_t i = 0; i < reply->elements; i++)
            made->element[i] = copy(reply->element[i]);
        return made;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        return make_text(reply->type, reply->str, (size_t)reply->len);
    case REDIS_REPLY_INTEGER:
        made = make(REDIS_REPLY_INTEGER);
        made->integer = reply->integer;
        return made;
    default:
        return make(REDIS_REPLY_NIL);
    }
}

struct redis_value *value_copy(const struct redis_value *value)
{
    return (struct redis_value *)(value != NULL ? copy((const redisReply *)value)
                                                : make(REDIS_REPLY_NIL));
}

struct redis_value *value_take(const struct redis_value *reply)
{
    redisReply *from = (redisReply *)(uintptr_t)reply, *made = malloc(sizeof(*made));

    assert(made != NULL);
    *made = *from;
    *from = (redisReply){.type = REDIS_REPLY_NIL};
    return (struct redis_value *)made;
}

struct redis_value *value_make_text(const char *text, size_t len)
{
    return (struct redis_value *)make_text(REDIS_REPLY_STRING, text, len);
}

struct redis_value *value_make_integer(int64_t number)
{
    redisReply *reply = make(REDIS_REPLY_INTEGER);

    reply->integer = number;
    return (struct redis_value *)reply;
}

struct redis_value *value_make_list(size_t count)
{
    redisReply *reply = make_list(count);

    for (size_t i = 0; i < count; i++)
        reply->element[i] = make(REDIS_REPLY_NIL);
    return (struct redis_value *)reply;
}

void value_put(struct redis_value *list, size_t i, struct redis_value *value)
{
    redisReply *reply = reply_of(list);

    if (i >= value_count(list)) {
        value_free(value);
        return;
    }
    value_free((struct redis_value *)reply->element[i]);
    reply->element[i] = reply_of(value);
}

void value_cut(struct redis_value *list, size_t count)
{
    redisReply *reply = reply_of(list);

    assert(reply->type == REDIS_REPLY_ARRAY && count <= reply->elements);
    for (size_t i = count; i < reply->elements; i++)
        value_free((struct redis_value *)reply->element[i]);
    reply->elements = count;
}

void value_free(struct redis_value *value)
{
    redisReply *reply = reply_of(value);

    if (reply == NULL)
        return;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        value_free((struct redis_value *)reply->element[i]);
    free(reply->element);
    free(reply->str);
    free(reply);
}
