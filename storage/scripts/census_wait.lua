-- Notes that a request waits for a lock for long, in a partition of the index of such locks.
-- Removes some names whose waits must have ended: more than a call adds, so that they get fewer
-- also where no census reads the index.
-- KEYS index
-- ARGV name left_ms
-- sync no
--
--   index    a sorted set: name of a lock -> epoch ms of the latest end of a long wait for it
--   name     of the lock, with the key prefix
--   left_ms  ms after which the wait will have ended
--
-- Reply  1
-- modules

local REMOVED_MAX = 4

local now = lib.number.epoch_ms()
call('zadd', index, 'gt', lib.number.integer(now + left_ms), name)
if call('pttl', index) < tonumber(left_ms) then call('pexpire', index, left_ms) end
local over = call('zrangebyscore', index, '-inf', lib.number.integer(now), 'limit', 0,
  REMOVED_MAX)
if over[1] then call('zrem', index, unpack(over)) end
return 1
