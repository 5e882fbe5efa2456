/* storage/redis/guard.c in front of hiredis' reader, and reply.c: bytes from Redis, and from a
 * Sentinel. The input is a byte of flags, a byte that says how long the pieces are, and the
 * bytes. */
#include "storage/redis/guard.h"
#include "storage/redis/reply.h"
#include "storage/topology/sentinels.h"
#include "tests/fuzz/fuzz.h"

enum { FLAG_PENDING = 1, FLAG_SUBSCRIBED = 2, FLAG_AWAITS = 4 };

static bool awaits(void *arg, const char *channel, size_t len)
{
    (void)arg;
    return len == 5 && memcmp(channel, "heart", 5) == 0;
}

static void check_host(const struct redis_host *host)
{
    CHECK(host->host[0] != '\0' && strlen(host->host) < sizeof(host->host));
    CHECK(host->port != 0 && strpbrk(host->host, " \r\n/@") == NULL);
}

/* As what a Sentinel says. */
static void read_as_sentinel(const struct redis_value *value)
{
    struct redis_host host;
    size_t len;
    const char *text = value_text(value, &len);

    if (sentinel_read_master(value, &host))
        check_host(&host);
    if (sentinel_read_sentinel(value, &host))
        check_host(&host);
    if (sentinel_read_switch(text, len, "m", &host))
        check_host(&host);
}

/* Every value is of a type that rlockd knows, and its text ends where it says. */
static void walk(const struct redis_value *value, int depth)
{
    enum redis_refusal refusal;
    size_t len;
    const char *text = value_text(value, &len);

    CHECK(depth < 16 && text[len] == '\0');
    read_as_sentinel(value);
    (void)value_integer(value);
    (void)redis_sort_error(text, &refusal);
    CHECK(value_at(value, value_count(value)) == NULL);
    for (size_t i = 0; i < value_count(value) && i < 1000; i++)
        walk(value_at(value, i), depth + 1);
}

static void read_all(redisAsyncContext *context, const struct redis_guard *guard,
                     struct fuzz_input *input, size_t piece)
{
    void *reply = NULL;

    while (input->size > 0) {
        size_t len = piece < input->size ? piece : input->size;
        if (redisReaderFeed(context->c.reader, (const char *)input->data, len) != REDIS_OK)
            return;
        input->data += len;
        input->size -= len;
        while (redisReaderGetReply(context->c.reader, &reply) == REDIS_OK && reply != NULL) {
            CHECK(!guard->refused);
            walk(reply, 0);
            freeReplyObject(reply);
            reply = NULL;
        }
        if (context->c.reader->err)
            return;
        CHECK(!redis_guard_is_flooded(guard));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t flags = fuzz_byte(&input), piece = fuzz_byte(&input);
    static redisCallback pending;
    redisAsyncContext context = {0};
    struct redis_guard guard = {.awaits = flags & FLAG_AWAITS ? awaits : NULL};

    context.c.reader = redisReaderCreate();
    CHECK(context.c.reader != NULL);
    context.c.flags = flags & FLAG_SUBSCRIBED ? REDIS_SUBSCRIBED : 0;
    context.replies.head = flags & FLAG_PENDING ? &pending : NULL;
    redis_guard_watch(&guard, &context);
    read_all(&context, &guard, &input, 1 + (size_t)piece);
    redisReaderFree(context.c.reader);
    return 0;
}
