/* Requests for fair locks, their queues in Redis, and Java clients in these queues. */
#include "fair.h"

#include <time.h>

#define CLEAN                                                                                  \
    "while true do"                                                                            \
    "  local head = redis.call('lindex', KEYS[2], 0)"                                          \
    "  local time = head and redis.call('zscore', KEYS[3], head)"                              \
    "  if not time or tonumber(time) > now then break end "                                    \
    "  redis.call('zrem', KEYS[3], head) redis.call('lpop', KEYS[2]) "                         \
    "end "

#define CALL_HEAD                                                                              \
    "local next = redis.call('lindex', KEYS[2], 0) "                                           \
    "if next then redis.call('publish', KEYS[4] .. ':' .. next, '0') end "

/* KEYS lock, queue, times; ARGV lease, holder, wait, now; "try": takes no place. */
static const char JAVA_LOCK[] =
    "local me, wait, now = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]) " CLEAN
    "local head = redis.call('lindex', KEYS[2], 0) "
    "if redis.call('exists', KEYS[1]) == 0 and (not head or head == me) then"
    "  redis.call('lpop', KEYS[2]) redis.call('zrem', KEYS[3], me)"
    "  for _, other in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do"
    "    redis.call('zincrby', KEYS[3], -wait, other) end"
    "  redis.call('hset', KEYS[1], me, 1) redis.call('pexpire', KEYS[1], ARGV[1])"
    "  return nil "
    "end "
    "if redis.call('hexists', KEYS[1], me) == 1 then"
    "  redis.call('hincrby', KEYS[1], me, 1) redis.call('pexpire', KEYS[1], ARGV[1])"
    "  return nil "
    "end "
    "if ARGV[5] == 'try' then return 1 end "
    "if redis.call('zscore', KEYS[3], me) then"
    "  return math.max(0, redis.call('pttl', KEYS[1])) end "
    "local last = redis.call('lindex', KEYS[2], -1) "
    "local time = last and last ~= me and redis.call('zscore', KEYS[3], last) "
    "local base = time and time - now or redis.call('pttl', KEYS[1]) "
    "redis.call('zadd', KEYS[3], string.format('%.0f', base + wait + now), me) "
    "redis.call('rpush', KEYS[2], me) "
    "return base";

/* KEYS queue is 2 and times is 3, as above; ARGV holder, wait. */
static const char JAVA_GIVE_UP[] =
    "local all, behind = redis.call('lrange', KEYS[2], 0, -1), false "
    "for _, other in ipairs(all) do"
    "  if behind then redis.call('zincrby', KEYS[3], -tonumber(ARGV[2]), other) end"
    "  if other == ARGV[1] then behind = true end "
    "end "
    "redis.call('zrem', KEYS[3], ARGV[1]) redis.call('lrem', KEYS[2], 0, ARGV[1])";

/* KEYS lock, queue, times, channel; ARGV lease, holder, now. */
static const char JAVA_UNLOCK[] =
    "local me, now = ARGV[2], tonumber(ARGV[3]) " CLEAN
    "if redis.call('exists', KEYS[1]) == 0 then " CALL_HEAD " return 1 end "
    "if redis.call('hexists', KEYS[1], me) == 0 then return -1 end "
    "if redis.call('hincrby', KEYS[1], me, -1) > 0 then"
    "  redis.call('pexpire', KEYS[1], ARGV[1]) return 0 "
    "end "
    "redis.call('del', KEYS[1]) " CALL_HEAD " return 1";

int64_t epoch_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* `prefix:{lock}`, or without further braces where the name has one. */
static const char *prefixed(struct world *w, const char *prefix, const char *lock)
{
    return text(w, strchr(lock, '{') != NULL ? "%s:%s" : "%s:{%s}", prefix, lock);
}

const char *fair_queue(struct world *w, const char *lock)
{
    return prefixed(w, "redisson_lock_queue", lock);
}

const char *fair_visit(struct world *w, const char *lock)
{
    const char *at = NULL;

    for (int i = 0; i < 16 && at == NULL; i++)
        at = redis_str(w->redis, "ZSCORE rlockd:queues:{%x} %s", (unsigned)i, lock);
    return at;
}

const char *fair_times(struct world *w, const char *lock)
{
    return prefixed(w, "redisson_lock_timeout", lock);
}

/* ---- requests ---- */

struct reply *fair_put(struct front *fe, const char *lock, const char *token, const char *query)
{
    return lock_put(
        fe, lock, token,
        text(fe->world, "kind=fair%s%s", query != NULL ? "&" : "", query != NULL ? query : ""));
}

struct call *fair_park(struct front *fe, const char *lock, const char *token, const char *query)
{
    struct world *w = fe->world;
    long long before = queue_len(w->redis, lock);
    struct call *call = call_put(fe, lock, token, text(w, "kind=fair&%s", query));

    wait_until(queue_len(w->redis, lock) == before + 1, 5000);
    return call;
}

const char *fair_hold(struct front *fe, const char *lock, const char *query)
{
    const char *token = token_new(fe->world);

    expect_status(fair_put(fe, lock, token, query != NULL ? query : "ttl_ms=60000"), 201);
    return token;
}

const char *fair_place(struct front *fe, const char *lock, const char *token)
{
    struct reply *r = http(fe, "GET", lock_path(fe->world, lock, ""), token);

    expect_status(r, 200);
    return text(fe->world, "%s:0", reply_str(r, "lease.lease_id"));
}

/* ---- the queue in Redis ---- */

long long queue_len(struct redis *redis, const char *lock)
{
    return redis_int(redis, "LLEN %s", fair_queue(redis->world, lock));
}

void expect_queue_at(struct redis *redis, const char *lock, const char *const *holders,
                     const char *file, int line)
{
    redisReply *list = redis_do(redis, "LRANGE %s 0 -1", fair_queue(redis->world, lock));
    long long times = redis_int(redis, "ZCARD %s", fair_times(redis->world, lock));
    size_t len = 0;

    for (; holders[len] != NULL; len++) {
        if (len >= list->elements)
            fail_at(file, line, "place %zu: nobody but %s", len, holders[len]);
        if (strcmp(list->element[len]->str, holders[len]) != 0)
            fail_at(file, line, "place %zu: %s is not %s", len, list->element[len]->str,
                    holders[len]);
        if (redis_str(redis, "ZSCORE %s %s", fair_times(redis->world, lock), holders[len]) ==
            NULL)
            fail_at(file, line, "place %zu: no time", len);
    }
    if (list->elements != len || times != (long long)len)
        fail_at(file, line, "%zu in the list, %lld with a time, not %zu", list->elements, times,
                len);
}

long long fair_time_left(struct redis *redis, const char *lock, const char *holder)
{
    const char *time = redis_str(redis, "ZSCORE %s %s", fair_times(redis->world, lock), holder);

    if (time == NULL)
        FAIL("%s has no time", holder);
    return atoll(time) - epoch_ms();
}

/* ---- Java clients ---- */

static redisReply *java_acquire(struct redis *redis, const char *lock, const char *holder,
                                int lease_ms, int wait_ms, const char *how)
{
    struct world *w = redis->world;
    redisReply *reply = redis_do(redis, "EVAL %s 3 %s %s %s %d %s %d %lld %s", JAVA_LOCK, lock,
                                 fair_queue(w, lock), fair_times(w, lock), lease_ms, holder,
                                 wait_ms, (long long)epoch_ms(), how);

    if (reply->type == REDIS_REPLY_ERROR)
        FAIL("RFairLock's acquire: %s", reply->str);
    return reply;
}

long long java_fair_lock(struct redis *redis, const char *lock, const char *holder,
                         int lease_ms, int wait_ms)
{
    redisReply *reply = java_acquire(redis, lock, holder, lease_ms, wait_ms, "");

    return reply->type == REDIS_REPLY_NIL ? JAVA_GOT_IT : reply->integer;
}

bool java_fair_try(struct redis *redis, const char *lock, const char *holder, int lease_ms)
{
    return java_acquire(redis, lock, holder, lease_ms, FAIR_WAIT_MS, "try")->type ==
           REDIS_REPLY_NIL;
}

void java_fair_give_up(struct redis *redis, const char *lock, const char *holder, int wait_ms)
{
    struct world *w = redis->world;

    redis_ok(redis, "EVAL %s 3 %s %s %s %s %d", JAVA_GIVE_UP, lock, fair_queue(w, lock),
             fair_times(w, lock), holder, wait_ms);
}

long long java_fair_unlock(struct redis *redis, const char *lock, const char *holder)
{
    struct world *w = redis->world;

    return redis_int(redis, "EVAL %s 4 %s %s %s %s 30000 %s %lld", JAVA_UNLOCK, lock,
                     fair_queue(w, lock), fair_times(w, lock),
                     prefixed(w, "redisson_lock__channel", lock), holder,
                     (long long)epoch_ms());
}
