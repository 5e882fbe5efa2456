-- The longest wait for a lock, of those that are noted.
-- KEYS waits lock
-- ARGV limit
-- REPLY [] ref since kind
-- sync no
--
--   waits  see lib/lock_wait.lua
--   limit  notes that a lock may have
--
-- Reply  ref    of the lease; "": no wait is noted
--        since  epoch ms
--        kind   that the lease asks for
-- modules

local ref, since, kind = lib.lock_wait.longest(waits, lock, limit, lib.number.epoch_ms())
if not ref then return {'', 0, ''} end
return {ref, tonumber(since), kind}
