-- Releases a permit and grants it to the waiter that is next, of the same worker, in one step.
-- Where that waiter may not have it, this is a release as any other.
--
-- KEYS semaphore timeouts record next_record waiters
-- ARGV as rw_hand_over.lua to keep_ms [unseen] [own_listeners]
-- REPLY [] session_id granted
-- sync yes
-- grants yes
--
--   timeouts       zset of permit id -> end in epoch ms
--   waiters        zset of lease id -> deadline in epoch ms
--   record_text    of the waiter in state "held"; keep_ms: how long it is kept
--   own_listeners  above 0: the permit is handed over only if no more than so many, workers of
--                  the server itself, listen to the channel
--   ARGV           else those of hand_over.lua
--
-- Replies  granted, 0, ttl, "", free permits, ms: released, and granted to the waiter; where
--            none is free, ms until a permit expires
--          0: released, and the waiters were told
--          1: the same, since others listen
--          session id, and one of these: the same of a lease that was held in this session
--          nil: nothing was done, for the lease holds no permit
--
-- The grant's first write is one that fails when memory is short: then the lease is released.
-- modules permit
local permits, permit, integer = lib.permits, lib.permit, lib.number.integer
local now = lib.number.epoch_ms()
local text, session, kind = call('get', record), nil, nil
if text then session, kind = lib.next.held(text) end
local id = permit.permit_id(lease_id)
local ends = kind == 'permit' and try('zscore', timeouts, id)
if type(ends) ~= 'string' or tonumber(ends) <= now then return false end

-- The number of free permits. Nil: the semaphore has less than none, so that the release has to
-- change the number.
local function read_free()
  local free = lib.counter.read(semaphore)
  return free and free >= 0 and free or nil
end

-- The end of the other permit that expires next. Nil: other permits have expired.
local function next_end_of_others()
  local first = call('zrangebyscore', timeouts, '-inf', '+inf', 'withscores', 'limit', 0, 2)
  local next_end = tonumber(first[first[1] == id and 4 or 2] or permits.FOR_EVER)
  return next_end > now and next_end or nil
end

-- The semaphore keeps its number: the waiter's permit takes the place of the other one. Permits
-- that are free meanwhile are for the waiters that were told of them.
local function hand_over()
  local free, next_end = read_free(), next_end_of_others()
  if not free or not next_end then return nil end
  if not lib.next.find(record_text, next_record, unseen) then return nil end
  local head, tail = string.match(record_text, '^(held\n\n[^\n]*\n)(.*)$')
  local held = head .. integer(now) .. tail
  if try('set', next_record, held, 'px', keep_ms).err then return nil end
  local own_end = now + ttl_ms
  permits.take(semaphore, timeouts, next_id, own_end)
  call('zrem', timeouts, id)
  if unseen ~= '1' then try('zrem', waiters, next_id) end
  -- Waiters sleep for as long as permits were to last, and take no number below 1.
  if own_end < math.min(next_end, tonumber(ends)) then call('publish', channel, '1') end
  local next_ms = free == 0 and math.min(next_end, own_end) - now or nil
  return {'granted', 0, tonumber(ttl_ms), '', free, next_ms}
end

local reply
local most = tonumber(own_listeners)
if most > 0 and lib.next.others_listen(channel, most) then
  reply = 1
else
  reply = hand_over() or 0
end
if type(reply) == 'number' then
  permit.release({id = lease_id}, semaphore)
  call('set', record, '1', 'px', window_ms) -- released: see lib/record.lua
  permits.reclaim(semaphore, timeouts, now)
else
  call('set', record, '1', 'px', window_ms)
end
if session ~= '' then return {session, reply} end
return reply
