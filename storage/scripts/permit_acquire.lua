-- Acquires one permit of a permit semaphore for one lease, or confirms that this very lease has
-- the permit, or registers the lease as a waiter.
--
-- KEYS as permit_renew.lua waiters
-- ARGV lease_id ttl_ms window_ms attempt is_returned wait_ms registered [waiting] [session_id] [session_name] [watchdog]
-- REPLY granted|held as acquire.lua to record free_permits [next_end_ms]
-- REPLY ended as acquire.lua
-- sync yes
--
--   semaphore    free permits
--   timeouts     zset of permit id -> end in epoch ms
--   waiters      zset of lease id -> deadline in epoch ms
--   window_ms    for which the lease's token is kept after its end
--   is_returned  "1": the server made the token some time ago: its lease holds, or it is spent
--   wait_ms      for which to be registered as a waiter when no permit is free; 0: not
--   registered   "1": the request is a waiter already, and leaves when it gets a permit
--   waiting      "1": the request has waited, registered or not, and others may wait behind it
--   session_id   and the arguments behind it: of a lease with a session
--   watchdog     "1": the watchdog renews the lease
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
local counter, number, record_of, permits = lib.counter, lib.number, lib.record, lib.permits
local leases, now = lib.lease, number.epoch_ms()
local old = record_of.stored(lease_id)

local function leave(reply)
  if registered == '1' then call('zrem', waiters, lease_id) end
  return reply
end

local function new_lease(state)
  local lease = record_of.plain(lease_id, semaphore, record)
  lease.state, lease.attempt, lease.ttl = state, attempt, ttl_ms
  lease.since = number.integer(now)
  lease.session, lease.session_name = session_id or '', session_name or ''
  lease.watchdog, lease.kind = watchdog or '', 'permit'
  return lease
end

local function confirm(left, free)
  local word = old.attempt == attempt and 'granted' or 'held'
  if word == 'held' then leases.claim(old) end
  return {word, 0, left, record_of.format(old, 1), free}
end

-- The reply of the lease's record, or nil.
local function answer_of_record(free)
  if not old then return is_returned == '1' and {'ended', 'unknown', '', ''} or nil end
  local reply = record_of.mismatch(old, true)
  if reply then return reply end
  if old.state == 'ended' then return leases.ended_reply(old) end
  local asked = {kind = 'permit', owner = '', session = session_id or ''}
  if record_of.is_other(old, asked) then return {'reused'} end
  if old.state ~= 'held' then return nil end
  local left = lib.permit.remaining(old, semaphore, now)
  if left then return confirm(left, free) end
  return leases.lost_reply(old, window_ms)
end

-- Ms until a permit expires, -1: none will.
local function next_end()
  local first = call('zrangebyscore', timeouts, '-inf', '+inf', 'withscores', 'limit', 0, 1)[2]
  if not first or tonumber(first) >= permits.FOR_EVER then return -1 end
  return math.max(tonumber(first) - now, 0)
end

local function grant(free)
  call('set', record, record_of.format(new_lease('held'), 1), 'px', ttl_ms + window_ms)
  call('decrby', semaphore, 1)
  permits.take(semaphore, timeouts, lease_id, now + ttl_ms)
  if old and (old.attempt ~= attempt or old.detail == 'shared') then leases.publish(old) end
  if old or registered == '1' then call('zrem', waiters, lease_id) end
  local next_ms = free == 1 and waiting == '1' and next_end() or nil
  return {'granted', 0, tonumber(ttl_ms), '', free - 1, next_ms}
end

local function register_waiter()
  local lease = new_lease('waiting')
  if old and old.state == 'waiting' then
    if old.attempt == attempt then return end
    -- Of two requests that waited with this token one has left: a registered one is the other.
    local is_last = registered == '1' and old.attempt == '' and old.detail ~= attempt
    lease.detail, lease.since = is_last and '' or 'shared', old.since
  end
  local keep = math.max(wait_ms + window_ms, call('pttl', record))
  call('set', record, record_of.format(lease, 1), 'px', number.integer(keep))
  counter.add_waiter(waiters, lease_id, wait_ms, window_ms)
end

local function may_wait() return old or registered == '1' or not counter.is_crowded(waiters) end

local free = counter.read(semaphore)
if free == false then return leave({'wrong-kind'}) end
local reply = answer_of_record(free or 0)
if reply then return leave(reply) end
permits.reclaim(semaphore, timeouts, now)
free = counter.read(semaphore) or 0
if free >= 1 then return grant(free) end
if tonumber(wait_ms) > 0 then
  if not may_wait() then return {'too-many'} end
  register_waiter()
end
return {'busy', next_end(), ''}
