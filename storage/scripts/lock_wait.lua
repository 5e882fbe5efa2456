-- Notes that a lease has waited for a lock for long, and still waits.
-- KEYS waits
-- ARGV ref waited_ms life_ms keep_ms limit kind
-- sync no
--
--   waits      see lib/lock_wait.lua
--   waited_ms  by the request that waits now: an earlier request with the token, of which there
--              is a note still, began before
--   life_ms    ms after which the note ends, unless it is made again
--   keep_ms    ms, longer than this, for which the notes of the lock, and its entry in the
--              index, are kept
--   limit      notes that a lock may have
--
-- Replies  2: noted, and the lock has to be entered into the index (census_wait.lua)
--          1: noted, and its entry outlasts the note, because a request was told to make it in
--             the last keep_ms - life_ms
--          0: the lock has as many notes
-- modules

local FEW = 5 -- notes of a full lock that a further wait looks at: one may have ended

local now = lib.number.epoch_ms()
local _, since = lib.lock_wait.parse(call('hget', waits, ref), now)
if not since and call('hlen', waits) >= tonumber(limit) then
  lib.lock_wait.purge(waits, FEW, now)
  if call('hlen', waits) >= tonumber(limit) then return 0 end
end
local ends_at = lib.number.integer(now + life_ms)
since = since or lib.number.integer(now - waited_ms)
call('hset', waits, ref, ends_at .. ' ' .. since .. ' ' .. kind)
if call('pttl', waits) > tonumber(life_ms) then return 1 end
call('pexpire', waits, keep_ms)
return 2
