-- Tries, at connect, the commands, keys and channels that the other scripts need, so that a
-- missing permission is found before a script fails in its middle.
--
-- KEYS names...
-- ARGV channels...
-- sync no
--
--   names     like those of a lock and of its companions, used by nothing else
--   channels  like those that are published on, or those themselves: a 0 disturbs no listener
--
-- Reply  1
call('hset', KEYS[1], 'probe', '1')
call('pexpire', KEYS[1], 1000)
call('hrandfield', KEYS[1], 2)
call('hexists', KEYS[1], 'probe')
call('hget', KEYS[1], 'probe')
call('hmget', KEYS[1], 'probe')
call('hscan', KEYS[1], 0)
call('hlen', KEYS[1])
call('hincrby', KEYS[1], 'probe', 1)
call('hdel', KEYS[1], 'probe')
for i = 2, #KEYS do
  call('mget', KEYS[i])
  call('zadd', KEYS[i], 1, 'probe')
  call('zscore', KEYS[i], 'probe')
  call('zcount', KEYS[i], 0, 1)
  call('zcard', KEYS[i])
  call('zrangebyscore', KEYS[i], 0, 1)
  call('zremrangebyscore', KEYS[i], 0, 0)
  call('zrange', KEYS[i], 0, 0)
  call('zincrby', KEYS[i], 1, 'probe')
  call('zrem', KEYS[i], 'probe')
  call('rpush', KEYS[i], 'probe', 'other')
  call('llen', KEYS[i])
  call('lindex', KEYS[i], 0)
  call('lpos', KEYS[i], 'probe')
  call('lrange', KEYS[i], 0, 0)
  call('lrem', KEYS[i], 1, 'probe')
  call('rename', KEYS[i], KEYS[i])
  call('lpop', KEYS[i])
  call('set', KEYS[i], '1', 'px', 1000, 'get')
  call('incrby', KEYS[i], 1)
  call('decrby', KEYS[i], 1)
  call('get', KEYS[i])
  call('exists', KEYS[i])
  call('pttl', KEYS[i])
  call('del', KEYS[i])
  call('unlink', KEYS[i])
end
call('scan', 0, 'count', 1, 'type', 'hash')
call('time')
call('info', 'replication')
try('pubsub', 'numsub', ARGV[1]) -- without it no plain lock or permit is handed over
for i = 1, #ARGV do call('publish', ARGV[i], '0') end
return 1
