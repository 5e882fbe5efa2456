-- Releases one lease's hold, or gives up its waiting; the same again gives the same reply
-- within the retry window. A token that was never seen is marked as spent, so that the PUT that
-- this overtook takes nothing.
--
-- KEYS  1 lock   2 lease record   3 waiters
-- ARGV  1 lease id   2 unlock channel   3 retry window in ms
--
-- Replies  released, holds left | ended, reason | reused
--
-- A release is 3 commands. Its first write is one that Redis allows when memory is short.
local lock, lease, waiters = KEYS[1], KEYS[2], KEYS[3]
local lease_id, channel, window = ARGV[1], ARGV[2], ARGV[3]

-- The common case: a holder of this one lease. The last field takes the key with it.
if redis.call('hdel', lock, lease_id .. ':0') == 1 then
  redis.call('publish', channel, '0')
  local old = redis.call('set', lease, 'ended\nreleased\n\n\n\n\n\n\n\n\n\n' .. lock,
    'px', window, 'get')
  local session = old and string.match(old,
    '^[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n([^\n]+)')
  if session then
    redis.call('hdel', 'rlockd:session-leases:' .. session, lease_id)
    redis.call('zrem', 'rlockd:due', lease_id)
  end
  return {'released', 0}
end

-- include lease

local old = parse(redis.call('get', lease) or nil)
if not old then
  spend({session = '', lock = lock}, lease_id, 'unknown', window)
  return {'ended', 'unknown'}
end
if old.lock ~= lock then return {'reused'} end
if old.state == 'ended' then
  if old.detail == 'released' then return {'released', tonumber(old.token) or 0} end
  return {'ended', old.detail}
end
if old.state == 'waiting' then
  redis.call('zrem', waiters, lease_id)
  spend(old, lease_id, 'released', window)
  redis.call('publish', 'rlockd:leases', lease_id .. ' ' .. lock)
  return {'released', 0}
end
if holds(old, lease_id) then
  local left = take_hold_off(lock, holder_of(old, lease_id))
  spend(old, lease_id, 'released', window, left)
  return {'released', left}
end
return {'ended', lose(old, lease_id, window)}
