-- Takes every free permit of a semaphore.
--
-- KEYS  1 semaphore   2 the ends of permits, which it must not have   3 waiters
--       4 what the request's idempotency key did
-- ARGV  1 this request's own mark   2 retry window in ms
--
-- Replies  granted, 0, permits taken | replayed, the same once more | reused | wrong-kind
--
-- The first write is one that fails when memory is short.
-- include counter

local semaphore, timeouts, key = KEYS[1], KEYS[2], KEYS[4]
local mark, window = ARGV[1], ARGV[2]

local asked = asked_for('drain', '', semaphore)
local free = read_plain_counter(semaphore, timeouts)
local said = replay(key, recall(key), asked, mark)
if said then return said end
if free == false then return {'wrong-kind'} end
local taken = math.max(free or 0, 0)
remember(key, asked, mark, decimal(taken), '0', window)
if taken > 0 then redis.call('decrby', semaphore, decimal(taken)) end
return {'granted', 0, taken}
