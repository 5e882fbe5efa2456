-- Frees a lock whoever holds it, or only one grant of it.
--
-- KEYS  1 lock   2 fencing counter   3 who was forced out last: holder and token
-- ARGV  1 unlock channel   2 retry window in ms
--       3 fencing token of the only grant to free, "*" for any grant, or "": whatever there is
--
-- Replies  unlocked, holder | free | stale: another grant, or none | wrong-kind
local lock, counter, forced = KEYS[1], KEYS[2], KEYS[3]
local channel, window, only = ARGV[1], ARGV[2], ARGV[3]

local holders = redis.pcall('hrandfield', lock, 2)
if holders.err then return holders end
if #holders == 0 then return {only == '' and 'free' or 'stale'} end
if #holders ~= 1 or not string.find(holders[1], '^%x+%-%x+%-%x+%-%x+%-%x+:') then
  return {'wrong-kind'}
end
local token = redis.call('get', counter) or ''
if only ~= '' and only ~= '*' and token ~= only then return {'stale'} end
-- DEL first: it is allowed when memory is short.
redis.call('del', lock)
redis.call('publish', channel, '0')
redis.call('set', forced, holders[1] .. ' ' .. token, 'px', window)

-- Sessions hear of it at once: the holder's own, or the one that its lease belongs to.
local id, thread = string.match(holders[1], '^([^:]*):(.*)$')
local record = thread == '0' and redis.call('get', 'rlockd:lease:' .. id)
local session = record and string.match(record, '^' .. string.rep('[^\n]*\n', 6) .. '([^\n]+)')
redis.call('publish', 'rlockd:sessions', session or id)
return {'unlocked', holders[1]}
