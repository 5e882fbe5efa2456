-- Looks whether a latch is at zero, and registers a waiter if it is not. A latch that does
-- not exist is at zero.
--
-- KEYS as counter_look.lua
-- ARGV attempt window_ms wait_ms registered
-- REPLY granted|busy value waiter_count
-- sync no
--
--   counter     the latch's count
--   timeouts    the ends of permits: a latch has no such key
--   window_ms   the retry window
--   wait_ms     for which to be registered as a waiter; 0: not
--   registered  "1": the request is a waiter already, and leaves when the latch is at zero
--
-- Replies  granted: value 0 | busy: the count | wrong-kind
--          too-many: as many wait as may
-- modules
local counters = lib.counter
local count = counters.read_plain(counter, timeouts)
local is_over = not count or count <= 0
if registered == '1' and is_over then call('zrem', waiters, attempt) end
if count == false then return {'wrong-kind'} end
if not is_over and tonumber(wait_ms) > 0 then
  if registered ~= '1' and counters.is_crowded(waiters) then return {'too-many'} end
  counters.add_waiter(waiters, attempt, wait_ms, window_ms)
end
if is_over then return {'granted', 0, counters.count_waiters(waiters)} end
return {'busy', count, counters.count_waiters(waiters)}
