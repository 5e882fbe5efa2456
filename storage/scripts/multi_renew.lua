-- Renews a lease of several locks that still holds them all: it lasts `ttl` from now.
--
-- KEYS  1 lease record
-- ARGV  1 lease id   2 ttl in ms   3 retry window in ms
--       4 "1": back to the watchdog's care, if the lease has a session
--       5 ms after which a lease that the watchdog keeps is due
--
-- Replies  held, tokens, ttl, record, holds, names: see multi_acquire.lua
--          busy, remaining ms, holder, number of the lock, names: it only waits
--          ended, reason, names | reused | session-ended, reason
--
-- Every first write is one that Redis allows when memory is short.
-- include lease
-- include session
-- include several

local lease, lease_id, ttl, window = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local old = parse(redis.call('get', lease) or nil)
local no = told_of_several(old, lease_id, window)
if no then return no end

redis.call('pexpire', lease, ttl + window)
for _, lock in ipairs(old.locks) do set_time(old, lease_id, lock, ttl) end
write_renewed(old, lease_id, ttl, window, ARGV[4], ARGV[5])
return held_several(old, lease_id, ttl)
