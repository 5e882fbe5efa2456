-- Takes every free permit of a semaphore.
--
-- KEYS semaphore timeouts waiters idempotency
-- ARGV attempt window_ms
-- sync yes
--
--   KEYS       those of semaphore_acquire.lua
--   window_ms  for which the same request gives the same reply
--
-- Replies  granted, 0, permits taken | replayed, the same once more | reused | wrong-kind
--
-- The first write is one that fails when memory is short.
-- modules
local counter, integer = lib.counter, lib.number.integer
local asked = counter.asked_for('drain', '', semaphore)
local free = counter.read_plain(semaphore, timeouts)
local reply = counter.replay(idempotency, counter.recall(idempotency), asked, attempt)
if reply then return reply end
if free == false then return {'wrong-kind'} end
local taken = math.max(free or 0, 0)
counter.remember(idempotency, asked, attempt, integer(taken), '0', window_ms)
if taken > 0 then call('decrby', semaphore, integer(taken)) end
return {'granted', 0, taken}
