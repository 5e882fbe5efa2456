/* The checks of replies as hiredis reads them. */
#include "storage/redis/guard.h"

#include <string.h>

enum {
    ELEMENTS_MAX = 1024 *
                   1024, /* of an array: hiredis allocates for as many as Redis announces */
    UNREAD_MAX = 64 * 1024 * 1024
};

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static struct redis_guard *guard_of(const redisReadTask *task)
{
    return task->privdata;
}

/* hiredis takes a NULL object for a lack of memory: it ends the connection, and calls every
 * pending callback. */
static void *refuse(struct redis_guard *guard)
{
    guard->refused = true;
    return NULL;
}

/* Redis may say why it ends a connection, and sends messages where it was asked to. */
static bool is_reply_expected(const struct redis_guard *guard, const redisReadTask *task,
                              element_count count)
{
    if (task->type > REDIS_REPLY_ERROR)
        return false; /* RESP3 */
    if (guard->context->replies.head != NULL || task->type == REDIS_REPLY_ERROR)
        return true;
    return task->type == REDIS_REPLY_ARRAY && count == 3 &&
           (guard->context->c.flags & REDIS_SUBSCRIBED) != 0;
}

/* `[kind, channel, payload or count]` */
static bool is_member_expected(struct redis_guard *guard, const redisReadTask *task,
                               const char *text, size_t len)
{
    static const char *const kinds[] = {
        [GUARD_SUBSCRIBE] = "subscribe",     [GUARD_SHARD_SUBSCRIBE] = "ssubscribe",
        [GUARD_UNSUBSCRIBE] = "unsubscribe", [GUARD_SHARD_UNSUBSCRIBE] = "sunsubscribe",
        [GUARD_MESSAGE] = "message",         [GUARD_SHARD_MESSAGE] = "smessage"};

    switch (task->idx) {
    case 0:
        guard->kind = GUARD_OTHER;
        for (int kind = GUARD_SUBSCRIBE; text != NULL && kind <= GUARD_SHARD_MESSAGE; kind++)
            if (strlen(kinds[kind]) == len && memcmp(kinds[kind], text, len) == 0)
                guard->kind = kind;
        return guard->kind != GUARD_OTHER;
    case 1:
        return text != NULL && (guard->kind > GUARD_SHARD_SUBSCRIBE || guard->awaits == NULL ||
                                guard->awaits(guard->arg, text, len));
    default:
        return (guard->kind >= GUARD_MESSAGE) == (text != NULL) &&
               (text != NULL || task->type == REDIS_REPLY_INTEGER);
    }
}

/* An element of an array. `text`: of a string, else NULL. */
static bool is_element_expected(struct redis_guard *guard, const redisReadTask *task,
                                const char *text, size_t len)
{
    bool is_push = guard->context->replies.head == NULL;

    if (task->type > REDIS_REPLY_ERROR)
        return false;
    if (task->parent->parent != NULL || !is_push)
        return true;
    return is_member_expected(guard, task, task->type == REDIS_REPLY_STRING ? text : NULL, len);
}

static bool is_scalar_expected(const redisReadTask *task, const char *text, size_t len)
{
    return task->parent == NULL ? is_reply_expected(guard_of(task), task, 0)
                                : is_element_expected(guard_of(task), task, text, len);
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    struct redis_guard *guard = guard_of(task);

    return is_scalar_expected(task, text, len) ? guard->plain.createString(task, text, len)
                                               : refuse(guard);
}

static void *create_array(const redisReadTask *task, element_count count)
{
    struct redis_guard *guard = guard_of(task);
    bool expected = task->parent == NULL ? is_reply_expected(guard, task, count)
                                         : is_element_expected(guard, task, NULL, 0);

    return count <= ELEMENTS_MAX && expected ? guard->plain.createArray(task, count)
                                             : refuse(guard);
}

static void *create_integer(const redisReadTask *task, long long value)
{
    struct redis_guard *guard = guard_of(task);

    return is_scalar_expected(task, NULL, 0) ? guard->plain.createInteger(task, value)
                                             : refuse(guard);
}

static void *create_nil(const redisReadTask *task)
{
    struct redis_guard *guard = guard_of(task);

    return is_scalar_expected(task, NULL, 0) ? guard->plain.createNil(task) : refuse(guard);
}

#if HIREDIS_MAJOR >= 1
static void *create_double(const redisReadTask *task, double value, char *text, size_t len)
{
    (void)value;
    (void)text;
    (void)len;
    return refuse(guard_of(task));
}

static void *create_bool(const redisReadTask *task, int value)
{
    (void)value;
    return refuse(guard_of(task));
}
#endif

void redis_guard_watch(struct redis_guard *guard, redisAsyncContext *context)
{
    guard->context = context;
    guard->refused = false;
    guard->plain = *context->c.reader->fn;
    guard->guarded = guard->plain;
    guard->guarded.createString = create_string;
    guard->guarded.createArray = create_array;
    guard->guarded.createInteger = create_integer;
    guard->guarded.createNil = create_nil;
#if HIREDIS_MAJOR >= 1
    guard->guarded.createDouble = create_double;
    guard->guarded.createBool = create_bool;
#endif
    context->c.reader->fn = &guard->guarded;
    context->c.reader->privdata = guard;
}

bool redis_guard_is_flooded(const struct redis_guard *guard)
{
    const redisReader *reader = guard->context->c.reader;

    return reader->len - reader->pos > UNREAD_MAX;
}
