-- Releases one lease's hold, or gives up its waiting; the same again gives the same reply within
-- the retry window. A token that was never seen is marked as spent, so that the PUT that this
-- overtook takes nothing.
--
-- KEYS  1 lock   2 lease record   3 waiters   4 holder that was forced out last
-- ARGV  1 holder   2 lease id   3 unlock channel   4 retry window in ms   5 identity
--
-- Replies  released, holds left | ended, reason | reused
--
-- A release is 3 commands. Its first write is one that Redis allows when memory is short.
local lock, lease, waiters, forced = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local holder, lease_id, channel, window, identity = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local function spend(reason)
  redis.call('set', lease, 'ended\n' .. reason .. '\n\n\n\n' .. identity, 'px', window)
end

-- The last field takes the key with it.
if redis.call('hdel', lock, holder) == 1 then
  redis.call('publish', channel, '0')
  spend('released')
  return {'released', 0}
end

local old = redis.call('get', lease)
if not old then
  spend('unknown')
  return {'ended', 'unknown'}
end
if string.sub(old, -#identity) ~= identity then return {'reused'} end
local state, detail = string.match(old, '^([^\n]*)\n([^\n]*)\n')
if state == 'ended' then
  if detail == 'released' then return {'released', 0} end
  return {'ended', detail}
end
if state == 'waiting' then
  redis.call('zrem', waiters, lease_id)
  spend('released')
  redis.call('publish', 'rlockd:leases', lease_id .. ' ' .. lock)
  return {'released', 0}
end
local reason = redis.call('get', forced) == holder and 'forced' or 'expired'
spend(reason)
return {'ended', reason}
