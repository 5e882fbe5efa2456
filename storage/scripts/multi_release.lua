-- Releases what one lease holds of several locks, or gives up its waiting; the same again gives
-- the same reply within the retry window. A token that was never seen is marked as spent, so
-- that the PUT that this overtook takes nothing. Where one of the locks was lost the others are
-- let go.
--
-- KEYS  1 lease record
-- ARGV  1 lease id   2 retry window in ms
--
-- Replies  released, holds left, names: see multi_acquire.lua | ended, reason, names | reused
-- include lease

local lease, lease_id, window = KEYS[1], ARGV[1], ARGV[2]

local old = parse(redis.call('get', lease) or nil)
if not old then
  spend({session = '', lock = ''}, lease_id, 'unknown', window)
  return {'ended', 'unknown', ''}
end
if old.lock ~= '' then return {'reused'} end

local names = names_of(old)
if old.state == 'ended' then
  if old.detail == 'released' then return {'released', tonumber(old.token) or 0, names} end
  return {'ended', old.detail, names}
end
redis.call('pexpire', lease, window) -- a write that is always allowed
if old.state == 'waiting' then
  leave_line(old, lease_id)
  spend(old, lease_id, 'released', window)
  for _, lock in ipairs(old.locks) do
    redis.call('publish', 'rlockd:leases', lease_id .. ' ' .. lock)
  end
  return {'released', 0, names}
end
if not holds(old, lease_id) then return {'ended', lose(old, lease_id, window), names} end
local left = let_go(old, lease_id)
spend(old, lease_id, 'released', window, left)
return {'released', left, names}
