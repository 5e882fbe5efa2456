-- Looks at a semaphore.
--
-- KEYS as counter_create.lua waiters
-- REPLY looked value waiter_count
-- sync no
--
--   timeouts  the ends of permits: a plain semaphore has no such key
--
-- Replies  looked | missing | wrong-kind
-- modules
local value = lib.counter.read_plain(counter, timeouts)
if value == nil then return {'missing'} end
if not value then return {'wrong-kind'} end
return {'looked', value, lib.counter.count_waiters(waiters)}
