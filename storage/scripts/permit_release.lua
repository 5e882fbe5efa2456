-- Releases a permit, or ends the wait for one; a repetition gets the same reply within the
-- retry window. A token that was never used is spent, so that a PUT that this release overtook
-- acquires nothing.
--
-- KEYS as permit_acquire.lua
-- ARGV lease_id window_ms
-- REPLY released as release.lua
-- REPLY ended as acquire.lua
-- sync yes
--
--   timeouts   zset of permit id -> end in epoch ms
--   window_ms  for which the same release gives the same reply; 0: the token is not spent
--
-- Replies  released: 0 holds left; session id of the session where it held or waited until now
--          ended: session id and kind where this call found a loss
--          reused | wrong-kind
--
-- Its first write is one that Redis allows when memory is short.
-- modules permit
local leases, permits, now = lib.lease, lib.permits, lib.number.epoch_ms()
if lib.counter.read(semaphore) == false then return {'wrong-kind'} end
local lease = lib.record.load(lease_id)
if not lease then
  leases.spend({record}, 'unknown', window_ms)
  return {'ended', 'unknown', '', ''}
end
local reply = lib.record.mismatch(lease, true)
if reply then return reply end
if lease.state == 'ended' then
  if lease.detail == 'released' then return {'released', 0, ''} end
  return leases.ended_reply(lease)
end
call('zrem', waiters, lease_id)
if lease.state == 'waiting' then
  leases.spend({record}, 'released', window_ms)
  leases.publish(lease)
  return {'released', 0, lease.session}
end
if not lib.permit.remaining(lease, semaphore, now) then
  return leases.lost_reply(lease, window_ms)
end
lib.permit.release(lease, semaphore)
leases.spend({record}, 'released', window_ms)
permits.reclaim(semaphore, timeouts, now)
return {'released', 0, lease.session}
