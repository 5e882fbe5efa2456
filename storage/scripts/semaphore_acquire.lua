-- Takes permits from a semaphore, all or none, for a request with an idempotency key: of the
-- client, or made by the server so that the request can be withdrawn.
--
-- KEYS as semaphore_drain.lua
-- ARGV as latch_await.lua permits key_id
-- REPLY granted|replayed value permits
-- REPLY busy value
-- sync yes
-- grants yes
--
--   counter      free permits
--   timeouts     the ends of permits: a plain semaphore has no such key
--   idempotency  the effect of the request's idempotency key, `key_id`
--   window_ms    for which the same request gives the same reply
--   wait_ms      for which to be registered as a waiter when there are too few; 0: not
--   registered   "1": the request is a waiter already, and leaves when it gets them
--
-- Replies  granted: the free permits, and the permits taken | replayed: the same once more
--          busy: the free permits | reused | wrong-kind | too-many: as many wait as may
--
-- The first write of a grant is one that fails when memory is short, so it is never half made.
-- modules
local counters, integer = lib.counter, lib.number.integer
local asked = counters.asked_for('acquire', permits, counter)
local free = counters.read_plain(counter, timeouts)
local old = counters.recall(idempotency)

local function leave(reply)
  if registered == '1' then try('zrem', waiters, attempt) end
  return reply
end

-- Whether other requests wait with the same key.
local is_shared = old and (old.attempt ~= attempt or old.taken ~= '0')
local reply = counters.replay(idempotency, old, asked, attempt)
if reply then return leave(reply) end
if free == false then return leave({'wrong-kind'}) end
if free and free >= tonumber(permits) then
  local left = free - permits
  counters.remember(idempotency, asked, attempt, permits, integer(left), window_ms)
  call('decrby', counter, permits)
  if is_shared then
    call('publish', 'rlockd:leases', key_id .. ' ' .. counter)
  end
  return leave({'granted', left, tonumber(permits)})
end
if tonumber(wait_ms) > 0 then
  if registered ~= '1' and counters.is_crowded(waiters) then return {'too-many'} end
  local keep = math.max(wait_ms + window_ms, call('pttl', idempotency))
  counters.remember(idempotency, asked, attempt, is_shared and '+' or '0', '', integer(keep))
  counters.add_waiter(waiters, attempt, wait_ms, window_ms)
end
return {'busy', free or 0}
