/* Requests for read/write locks, their keys in Redis, and Java clients beside them. */
#include "read_write.h"

/* ---- requests ---- */

struct reply *rw_put(struct front *fe, const char *lock, const char *token, const char *query)
{
    return lock_put(fe, lock, token, text(fe->world, "kind=%s", query));
}

const char *rw_hold(struct front *fe, const char *lock, const char *query)
{
    const char *token = token_new(fe->world);

    expect_status(rw_put(fe, lock, token, query), 201);
    return token;
}

const char *rw_own(struct front *fe, const struct session *s, const char *lock,
                   const char *query)
{
    return session_hold(fe, s, lock, text(fe->world, "owner=me&kind=%s", query));
}

struct call *rw_park(struct front *fe, const char *lock, const char *token, const char *query)
{
    struct world *w = fe->world;
    int before = waiter_count(fe, lock);
    struct call *call = call_put(fe, lock, token, text(w, "wait_ms=30000&kind=%s", query));

    wait_until(waiter_count(fe, lock) == before + 1, 5000);
    return call;
}

struct call *rw_park_owner(struct front *fe, const struct session *s, const char *lock,
                           const char *token, const char *query)
{
    int before = waiter_count(fe, lock);
    struct call *call = session_call_put(
        fe, s, lock, token, text(fe->world, "owner=me&wait_ms=30000&kind=%s", query));

    wait_until(waiter_count(fe, lock) == before + 1, 5000);
    return call;
}

/* ---- Redis ---- */

const char *rw_field(struct front *fe, const char *lock, const char *token)
{
    struct world *w = fe->world;
    struct reply *r = http(fe, "GET", lock_path(w, lock, ""), token);

    return text(w, "%s:0", reply_str(r, "lease.lease_id"));
}

long long rw_count(struct redis *redis, const char *lock, const char *field)
{
    const char *count = redis_str(redis, "HGET %s %s", lock, field);

    return count != NULL ? atoll(count) : -1;
}

const char *rw_read_key(struct world *w, const char *lock, const char *field, int number)
{
    return text(
        w, strchr(lock, '{') != NULL ? "%s:%s:rwlock_timeout:%d" : "{%s}:%s:rwlock_timeout:%d",
        lock, field, number);
}

long long rw_read_left(struct redis *redis, const char *lock, const char *field, int number)
{
    return redis_int(redis, "PTTL %s", rw_read_key(redis->world, lock, field, number));
}

const char *rw_mode(struct redis *redis, const char *lock)
{
    const char *mode = redis_str(redis, "HGET %s mode", lock);

    return mode != NULL ? mode : "";
}

json_t *rw_holder(const struct reply *reply, const char *member, const char *value)
{
    size_t i;
    json_t *holder;

    json_array_foreach(json_object_get(reply->json, "holders"), i, holder) {
        const char *is = json_string_value(json_object_get(holder, member));

        if (is != NULL && strcmp(is, value) == 0)
            return holder;
    }
    return NULL;
}

/* ---- Redisson's side ----
 *
 * KEYS  1 lock   2 channel   3 what a read's keys begin with
 * ARGV  1 holder   2 lease in ms
 */

static const char READ[] =
    "local mode = redis.call('hget', KEYS[1], 'mode') "
    "local function add() "
    "  local n = redis.call('hincrby', KEYS[1], ARGV[1], 1) "
    "  redis.call('set', KEYS[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. n, '1', "
    "    'px', ARGV[2]) "
    "end "
    "if not mode then redis.call('hset', KEYS[1], 'mode', 'read') add() "
    "  redis.call('pexpire', KEYS[1], ARGV[2]) return false end "
    "if mode == 'read' or redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 1 then "
    "  local left = redis.call('pttl', KEYS[1]) add() "
    "  redis.call('pexpire', KEYS[1], math.max(left, ARGV[2])) return false end "
    "return redis.call('pttl', KEYS[1])";

static const char WRITE[] =
    "local mode, me = redis.call('hget', KEYS[1], 'mode'), ARGV[1] .. ':write' "
    "if not mode then redis.call('hset', KEYS[1], 'mode', 'write', me, 1) "
    "  redis.call('pexpire', KEYS[1], ARGV[2]) return false end "
    "if mode == 'write' and redis.call('hexists', KEYS[1], me) == 1 then "
    "  redis.call('hincrby', KEYS[1], me, 1) "
    "  redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[2]) return false end "
    "return redis.call('pttl', KEYS[1])";

static const char RENEW_READS[] =
    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end "
    "redis.call('pexpire', KEYS[1], ARGV[2]) "
    "for _, field in ipairs(redis.call('hkeys', KEYS[1])) do "
    "  for i = tonumber(redis.call('hget', KEYS[1], field)) or 0, 1, -1 do "
    "    redis.call('pexpire', KEYS[3] .. ':' .. field .. ':rwlock_timeout:' .. i, ARGV[2]) "
    "  end "
    "end "
    "return 1";

static const char END_READ[] =
    "local mode = redis.call('hget', KEYS[1], 'mode') "
    "if not mode then redis.call('publish', KEYS[2], '0') return false end "
    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return false end "
    "local n = redis.call('hincrby', KEYS[1], ARGV[1], -1) "
    "if n == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end "
    "redis.call('del', KEYS[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. (n + 1)) "
    "if redis.call('hlen', KEYS[1]) > 1 then "
    "  local longest = -3 "
    "  for _, field in ipairs(redis.call('hkeys', KEYS[1])) do "
    "    local count = tonumber(redis.call('hget', KEYS[1], field)) "
    "    for i = count or 0, 1, -1 do "
    "      longest = math.max(longest, redis.call('pttl', "
    "        KEYS[3] .. ':' .. field .. ':rwlock_timeout:' .. i)) "
    "    end "
    "  end "
    "  if longest > 0 then redis.call('pexpire', KEYS[1], longest) return 0 end "
    "  if mode == 'write' then return 0 end "
    "end "
    "redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1";

static const char END_WRITE[] =
    "local mode, me = redis.call('hget', KEYS[1], 'mode'), ARGV[1] .. ':write' "
    "if not mode then redis.call('publish', KEYS[2], '1') return false end "
    "if mode ~= 'write' or redis.call('hexists', KEYS[1], me) == 0 then return false end "
    "if redis.call('hincrby', KEYS[1], me, -1) > 0 then "
    "  redis.call('pexpire', KEYS[1], ARGV[2]) return 0 end "
    "redis.call('hdel', KEYS[1], me) "
    "if redis.call('hlen', KEYS[1]) == 1 then redis.call('del', KEYS[1]) "
    "  redis.call('publish', KEYS[2], '1') "
    "else redis.call('hset', KEYS[1], 'mode', 'read') end "
    "return 1";

static const char FORCE[] =
    "if redis.call('hget', KEYS[1], 'mode') ~= ARGV[1] then return 0 end "
    "redis.call('del', KEYS[1]) "
    "redis.call('publish', KEYS[2], ARGV[1] == 'write' and '1' or '0') return 1";

static long long java(struct redis *redis, const char *script, const char *lock,
                      const char *first, int lease_ms)
{
    bool has_brace = strchr(lock, '{') != NULL;
    struct world *w = redis->world;
    redisReply *reply = redis_do(
        redis, "EVAL %s 3 %s %s %s %s %d", script, lock,
        text(w, has_brace ? "redisson_rwlock:%s" : "redisson_rwlock:{%s}", lock),
        text(w, has_brace ? "%s" : "{%s}", lock), first, lease_ms);

    if (reply->type == REDIS_REPLY_ERROR)
        FAIL("as Redisson: %s", reply->str);
    return reply->type == REDIS_REPLY_NIL ? JAVA_NIL : reply->integer;
}

long long redisson_read(struct redis *redis, const char *lock, const char *holder, int lease_ms)
{
    return java(redis, READ, lock, holder, lease_ms);
}

long long redisson_write(struct redis *redis, const char *lock, const char *holder,
                         int lease_ms)
{
    return java(redis, WRITE, lock, holder, lease_ms);
}

void redisson_renew_reads(struct redis *redis, const char *lock, const char *holder,
                          int timeout_ms)
{
    assert_int_equal(java(redis, RENEW_READS, lock, holder, timeout_ms), 1);
}

long long redisson_end_read(struct redis *redis, const char *lock, const char *holder)
{
    return java(redis, END_READ, lock, holder, 0);
}

long long redisson_end_write(struct redis *redis, const char *lock, const char *holder,
                             int lease_ms)
{
    return java(redis, END_WRITE, lock, holder, lease_ms);
}

long long redisson_force(struct redis *redis, const char *lock, const char *mode)
{
    return java(redis, FORCE, lock, mode, 0);
}
