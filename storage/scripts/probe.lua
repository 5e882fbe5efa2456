-- Tries, at connect, the commands, keys and channels that the other scripts need, so that a
-- missing permission shows before a lock is half released.
--
-- KEYS  names like those of a lock and of its companions; nobody else uses them
-- ARGV  channels like those that are published on, or those themselves: nobody minds a 0 there
--
-- Reply  1
redis.call('hset', KEYS[1], 'probe', '1')
redis.call('pexpire', KEYS[1], 1000)
redis.call('hrandfield', KEYS[1], 2)
redis.call('hexists', KEYS[1], 'probe')
redis.call('hget', KEYS[1], 'probe')
redis.call('hmget', KEYS[1], 'probe')
redis.call('hkeys', KEYS[1])
redis.call('hgetall', KEYS[1])
redis.call('hlen', KEYS[1])
redis.call('hincrby', KEYS[1], 'probe', 1)
redis.call('hdel', KEYS[1], 'probe')
for i = 2, #KEYS do
  redis.call('mget', KEYS[i])
  redis.call('zadd', KEYS[i], 1, 'probe')
  redis.call('zscore', KEYS[i], 'probe')
  redis.call('zcount', KEYS[i], 0, 1)
  redis.call('zcard', KEYS[i])
  redis.call('zrangebyscore', KEYS[i], 0, 1)
  redis.call('zremrangebyscore', KEYS[i], 0, 0)
  redis.call('zscan', KEYS[i], 0)
  redis.call('zrem', KEYS[i], 'probe')
  redis.call('rpush', KEYS[i], 'probe', 'other')
  redis.call('llen', KEYS[i])
  redis.call('lindex', KEYS[i], 0)
  redis.call('lpos', KEYS[i], 'probe')
  redis.call('lrange', KEYS[i], 0, 0)
  redis.call('lrem', KEYS[i], 1, 'probe')
  redis.call('rename', KEYS[i], KEYS[i])
  redis.call('lpop', KEYS[i])
  redis.call('set', KEYS[i], '1', 'px', 1000, 'get')
  redis.call('incrby', KEYS[i], 1)
  redis.call('decrby', KEYS[i], 1)
  redis.call('get', KEYS[i])
  redis.call('exists', KEYS[i])
  redis.call('pttl', KEYS[i])
  redis.call('del', KEYS[i])
end
redis.call('scan', 0, 'count', 1, 'type', 'hash')
redis.call('time')
for i = 1, #ARGV do redis.call('publish', ARGV[i], '0') end
return 1
