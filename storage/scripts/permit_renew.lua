-- Renews a permit that is still held: it lasts `ttl_ms` from now.
--
-- KEYS semaphore timeouts record
-- ARGV as renew.lua
-- REPLY held as acquire.lua to record free_permits
-- REPLY ended as acquire.lua
-- sync yes
--
--   timeouts  zset of permit id -> end in epoch ms
--   ARGV      those of renew.lua
--
-- Replies  held: token 0 | busy, -1, "": it only waits
--          ended: session id and kind where this call found a loss
--          unknown: there is no such lease | reused | wrong-kind
--
-- Every first write is one that Redis allows when memory is short.
-- modules permit
local counter, permits, number = lib.counter, lib.permits, lib.number
local now = number.epoch_ms()
local free = counter.read(semaphore)
if free == false then return {'wrong-kind'} end
local lease = lib.record.load(lease_id)
if not lease then return {'unknown'} end
local reply = lib.record.mismatch(lease, true)
if reply then return reply end
if lease.state == 'ended' then return lib.lease.ended_reply(lease) end
if lease.state == 'waiting' then return {'busy', -1, ''} end
call('pexpire', record, ttl_ms + window_ms)
local left = lib.permit.remaining(lease, semaphore, now)
if not left then return lib.lease.lost_reply(lease, window_ms) end
lib.permit.extend(lease, semaphore, ttl_ms)
if lease.session ~= '' then lease.watchdog = watchdog or '' end
-- The lease is claimed, because the client is answered `held`: the granted attempt is not
-- withdrawn any more.
lease.attempt, lease.ttl = '', ttl_ms
local text = lib.record.format(lease, 1)
call('set', record, text, 'px', ttl_ms + window_ms)
permits.reclaim(semaphore, timeouts, now)
free = counter.read(semaphore) or 0
-- Waiters sleep for as long as permits were to last. A Java client wakes as many of its threads
-- as the message says.
if tonumber(ttl_ms) < left then
  local channel = lib.keys.companion('redisson_sc', semaphore)
  call('publish', channel, number.java_int(math.max(free, 1000)))
end
return {'held', 0, tonumber(ttl_ms), text, free}
