-- Acquires one permit of a permit semaphore for one lease, or confirms that this very lease has
-- the permit, or registers the lease as a waiter.
--
-- KEYS as permit_renew.lua waiters
-- ARGV as acquire.lua [waiting] [reusable]
-- REPLY granted|held as acquire.lua to record free_permits [next_end_ms]
-- REPLY ended as acquire.lua
-- sync yes
-- grants yes
--
--   semaphore    free permits
--   timeouts     zset of permit id -> end in epoch ms
--   waiters      zset of lease id -> deadline in epoch ms
--   ARGV         see lib/request.lua; a permit has no fencing token
--   waiting      "1": the request has waited, registered or not, and others may wait behind it
--   reusable     "1": a permit that the lease has lost does not spend its token
--
-- Replies  granted: token 0, record or ""; the ms until a permit expires, where a request that
--                has waited got the last one
--          held: token 0
--          busy, ms until a permit expires or -1, "" | reused | wrong-kind
--          too-many: as many wait as may
--          ended: session id and kind where this call found a loss
--
-- The first write of a grant that reclaims nothing is one that fails when memory is short.
-- modules permit
local counter, permits, requests = lib.counter, lib.permits, lib.request
local integer, now = lib.number.integer, lib.number.epoch_ms()
local request = requests.read(lease_id, ttl_ms, record_text, keep_ms, wait_ms, mode,
  registered)

-- The reply for a lease whose record says that it has a permit. Nil: it may get another one.
local function confirm(free)
  local leases, old = lib.lease, request.old
  local left = lib.permit.remaining(old, semaphore, now)
  if not left and reusable == '1' then return nil end
  if not left then return leases.lost_reply(old, request.window) end
  local is_own = old.attempt == request.attempt
  if not is_own then leases.claim(old) end
  return {is_own and 'granted' or 'held', 0, left, lib.record.format(old, 1), free}
end

-- Ms until a permit expires, -1: none will.
local function next_end()
  local first = call('zrangebyscore', timeouts, '-inf', '+inf', 'withscores', 'limit', 0, 1)[2]
  if not first or tonumber(first) >= permits.FOR_EVER then return -1 end
  return math.max(tonumber(first) - now, 0)
end

local function grant(free)
  request.since = integer(now)
  requests.attach(request, {''})
  local taken = permits.take(semaphore, timeouts, lease_id, now + ttl_ms)
  if taken > 0 then free = call('decrby', semaphore, taken) end
  local reply = requests.granted(request, free)
  reply[2] = 0
  if free == 0 and waiting == '1' then reply[6] = next_end() end
  return reply
end

local free = counter.read(semaphore)
if free == false then return requests.refuse(request, {'wrong-kind'}) end
local reply = requests.answer(request) or requests.refusal(request)
if reply and reply[1] == 'recorded' then reply = confirm(free or 0) end
if reply then return requests.refuse(request, reply) end
permits.reclaim(semaphore, timeouts, now)
free = counter.read(semaphore) or 0
if free >= 1 then return grant(free) end
return requests.register_waiter(request) or {'busy', next_end(), ''}
