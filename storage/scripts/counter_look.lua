-- Looks at a semaphore.
--
-- KEYS  1 its number   2 the ends of its permits, which it must not have   3 waiters
--
-- Replies  looked, number, waiters | missing | wrong-kind
-- include counter

local number = read_plain_counter(KEYS[1], KEYS[2])
if number == nil then return {'missing'} end
if not number then return {'wrong-kind'} end
local now = redis.call('time')[1] * 1000
return {'looked', number, redis.call('zcount', KEYS[3], '(' .. decimal(now), '+inf')}
