-- Looks at a semaphore.
--
-- KEYS  1 its number   2 the ends of its permits, which it must not have   3 waiters
--
-- Replies  looked, number, waiters | missing | wrong-kind
-- include counter

local number = read_plain_counter(KEYS[1], KEYS[2])
if number == nil then return {'missing'} end
if not number then return {'wrong-kind'} end
return {'looked', number, count_standing(KEYS[3])}
