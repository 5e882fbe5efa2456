-- Notes that a request waits for a lock for long, in a partition of the index of such locks.
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

local until_ms = lib.number.epoch_ms() + left_ms
call('zadd', index, 'gt', lib.number.integer(until_ms), name)
if call('pttl', index) < tonumber(left_ms) then call('pexpire', index, left_ms) end
return 1
