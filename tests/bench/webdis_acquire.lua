-- The bare acquire that webdis is given: Redisson's fenced lock and nothing else.
--
-- KEYS  1 lock   2 fencing counter
-- ARGV  1 holder   2 ttl in ms
--
-- Replies  fencing token | nil: busy
if redis.call('exists', KEYS[1]) == 1 then return nil end
redis.call('hset', KEYS[1], ARGV[1], '1')
redis.call('pexpire', KEYS[1], ARGV[2])
return redis.call('incr', KEYS[2])
