-- Deletes a semaphore or a latch, permits and all. Whoever waits goes on waiting for a new one;
-- for a latch that means that it is at zero.
--
-- KEYS  1 its number   2 the ends of its permits
-- ARGV  1 "1": a permit semaphore   2 channel and 3 message of its end; empty: none is sent
--
-- Replies  deleted | missing | wrong-kind
-- include counter

local counter, timeouts = KEYS[1], KEYS[2]
local old
if ARGV[1] == '1' then
  old = read_counter(counter)
  if old == nil and redis.call('zcard', timeouts) > 0 then old = 0 end
else
  old = read_plain_counter(counter, timeouts)
end
if old == nil then return {'missing'} end
if not old then return {'wrong-kind'} end
redis.call('del', counter)
if ARGV[1] == '1' then redis.call('del', timeouts) end
if ARGV[2] ~= '' then redis.call('publish', ARGV[2], ARGV[3]) end
return {'deleted'}
