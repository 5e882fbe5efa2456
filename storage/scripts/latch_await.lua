-- Looks whether a latch is at zero, and registers a waiter if it is not. A latch that is not
-- there is at zero.
--
-- KEYS  1 latch: its count   2 the ends of permits, which it must not have   3 waiters
-- ARGV  1 this request's own mark   2 retry window in ms
--       3 ms for which to be registered as a waiter; 0: not
--       4 "1": this request is registered, and leaves when the latch is at zero
--
-- Replies  granted, 0, waiters | busy, count, waiters | wrong-kind
-- include counter

local latch, timeouts, waiters = KEYS[1], KEYS[2], KEYS[3]
local mark, window, wait, registered = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

local count = read_plain_counter(latch, timeouts)
local is_over = not count or count <= 0
if registered and is_over then redis.call('zrem', waiters, mark) end
if count == false then return {'wrong-kind'} end
if not is_over and tonumber(wait) > 0 then stand_among(waiters, mark, wait, window) end
if is_over then return {'granted', 0, count_standing(waiters)} end
return {'busy', count, count_standing(waiters)}
