-- Counts a latch down; at zero it is gone and whoever waits is woken. One that is not there
-- stays as it is.
--
-- KEYS  1 latch   2 the ends of permits, which it must not have   3 waiters
--       4 what the request's idempotency key did, if it has one
-- ARGV  1 channel   2 retry window in ms
--
-- Replies  counted, count | replayed, the same once more | reused | wrong-kind
--
-- It works when memory is short: the first write is one that Redis allows.
-- include counter

local latch, timeouts, waiters, key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local channel, window = ARGV[1], ARGV[2]

local asked = asked_for('count-down', '', latch)
local count = read_plain_counter(latch, timeouts)
local said = key and replay(key, recall(key), asked, '')
if said then return said end
if count == false then return {'wrong-kind'} end
redis.call('zrem', waiters, '') -- of no effect
local left = 0
if count and count > 1 then
  left = redis.call('decrby', latch, 1)
elseif count then
  redis.call('del', latch)
  if count == 1 then redis.call('publish', channel, '0') end
end
if key then remember(key, asked, '', '0', decimal(left), window) end
return {'counted', left}
