/* Requests for semaphores, permits and latches, and Redisson's operations on their keys. */
#include "counters.h"

struct reply *counter_send(struct front *fe, const char *method, const char *path,
                           const char *key)
{
    const char *header = key ? text(fe->world, "Idempotency-Key: %s", key) : NULL;

    return HTTP(fe, .method = method, .path = text(fe->world, "/v1/%s", path),
                .headers = {header});
}

struct call *counter_call(struct front *fe, const char *method, const char *path,
                          const char *key)
{
    const char *header = key ? text(fe->world, "Idempotency-Key: %s", key) : NULL;

    return CALL(fe, .method = method, .path = text(fe->world, "/v1/%s", path),
                .headers = {header});
}

long long counter_value(struct redis *redis, const char *key)
{
    const char *value = redis_str(redis, "GET %s", key);

    return value != NULL ? strtoll(value, NULL, 10) : -1;
}

int counter_waiters(struct front *fe, const char *path)
{
    struct reply *r = counter_send(fe, "GET", path, NULL);

    expect_status(r, 200);
    return (int)reply_int(r, "waiter_count");
}

struct reply *permit_send(struct front *fe, const char *method, const char *path,
                          const char *token, const char *session)
{
    const char *header = session ? text(fe->world, "Session-Token: %s", session) : NULL;

    return HTTP(fe, .method = method, .path = text(fe->world, "/v1/%s", path), .token = token,
                .headers = {header});
}

struct call *permit_call(struct front *fe, const char *path, const char *token)
{
    return CALL(fe, .method = "PUT", .path = text(fe->world, "/v1/%s", path), .token = token);
}

bool redisson_acquire(struct redis *redis, const char *key, int permits)
{
    static const char script[] = "local v = redis.call('get', KEYS[1]) "
                                 "if v ~= false and tonumber(v) >= tonumber(ARGV[1]) then "
                                 "redis.call('decrby', KEYS[1], ARGV[1]) return 1 end return 0";

    return redis_int(redis, "EVAL %s 1 %s %d", script, key, permits) == 1;
}

void redisson_release(struct redis *redis, const char *key, const char *channel, int permits)
{
    static const char script[] = "local v = redis.call('incrby', KEYS[1], ARGV[1]) "
                                 "redis.call('publish', KEYS[2], v) return v";

    assert_true(redis_int(redis, "EVAL %s 2 %s %s %d", script, key, channel, permits) >= 0);
}

bool redisson_take_permit(struct redis *redis, const char *key, const char *id, int64_t ends_ms)
{
    if (!redisson_acquire(redis, key, 1))
        return false;
    assert_int_equal(redis_int(redis, "ZADD {%s}:timeout %lld %s", key, (long long)ends_ms, id),
                     1);
    return true;
}

void redisson_count_down(struct redis *redis, const char *key)
{
    static const char script[] =
        "local v = redis.call('decr', KEYS[1]) "
        "if v <= 0 then redis.call('del', KEYS[1]) end "
        "if v == 0 then redis.call('publish', KEYS[2], ARGV[1]) end return v";

    redis_int(redis, "EVAL %s 2 %s redisson_countdownlatch__channel__{%s} 0", script, key, key);
}

int64_t redis_epoch_ms(struct redis *redis)
{
    return redis_int(
        redis, "EVAL %s 0",
        "local t = redis.call('time') return t[1] * 1000 + math.floor(t[2] / 1000)");
}

struct slow slow_start(struct world *w)
{
    struct slow slow;

    slow.proxy = proxy_start(w->redis);
    slow.fe = front_start(w, "--redis", proxy_url(slow.proxy, "", ""), NULL);
    proxy_settle(slow.proxy); /* what it asks at its start */
    return slow;
}

void slow_settle(struct slow *slow)
{
    proxy_settle(slow->proxy);
}
