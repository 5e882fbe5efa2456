-- Makes a semaphore or a latch, if the name is free: Redisson's trySetPermits(), trySetCount().
--
-- KEYS  1 its number   2 the ends of its permits, which only a permit semaphore has
-- ARGV  1 number   2 channel   3 message that it is there   4 "1": a permit semaphore
--
-- Replies  created, number | exists, number | wrong-kind
-- include counter

local counter, timeouts = KEYS[1], KEYS[2]
local number, channel, message = ARGV[1], ARGV[2], ARGV[3]

local old
if ARGV[4] == '1' then
  old = read_counter(counter)
else
  old = read_plain_counter(counter, timeouts)
end
if old == false then return {'wrong-kind'} end
if old then return {'exists', old} end
redis.call('set', counter, number)
redis.call('publish', channel, message)
return {'created', tonumber(number)}
