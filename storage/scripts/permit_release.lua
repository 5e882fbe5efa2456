-- Gives a permit back, or gives up waiting for one; the same again gives the same reply within
-- the retry window. A token that was never seen is marked as spent, so that the PUT that this
-- overtook takes nothing.
--
-- KEYS  1 semaphore   2 the ends of its permits   3 lease record   4 waiters
-- ARGV  1 lease id   2 retry window in ms
--
-- Replies  released, 0 | ended, reason | reused | wrong-kind
--
-- Its first write is one that Redis allows when memory is short.
-- include counter
-- include lease
-- include permit

local semaphore, timeouts, lease, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease_id, window = ARGV[1], ARGV[2]

local now = epoch_ms()
if read_counter(semaphore) == false then return {'wrong-kind'} end
local old = parse(redis.call('get', lease) or nil)
if not old then
  spend({session = '', kind = 'permit', lock = semaphore}, lease_id, 'unknown', window)
  return {'ended', 'unknown'}
end
local no = mismatch(old, semaphore)
if no then return no end
if old.state == 'ended' then
  if old.detail == 'released' then return {'released', 0} end
  return {'ended', old.detail}
end
redis.call('zrem', waiters, lease_id)
if old.state == 'waiting' then
  spend(old, lease_id, 'released', window)
  redis.call('publish', 'rlockd:leases', lease_id .. ' ' .. semaphore)
  return {'released', 0}
end
if permit_left(semaphore, lease_id, now) then
  give_permit_back(semaphore, lease_id)
  spend(old, lease_id, 'released', window)
  reclaim(semaphore, timeouts, now)
  return {'released', 0}
end
return {'ended', lose(old, lease_id, window)}
