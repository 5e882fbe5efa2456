-- Takes every free permit of a semaphore.
--
-- KEYS as counter_look.lua idempotency
-- ARGV attempt window_ms
-- REPLY granted|replayed value permits
-- sync yes
-- grants yes
--
--   window_ms  for which the same request gives the same reply
--
-- Replies  granted: value 0, and the permits taken | replayed: the same once more
--          reused | wrong-kind
--
-- The first write is one that fails when memory is short.
-- modules
local counters, integer = lib.counter, lib.number.integer
local asked = counters.asked_for('drain', '', counter)
local free = counters.read_plain(counter, timeouts)
local reply = counters.replay(idempotency, counters.recall(idempotency), asked, attempt)
if reply then return reply end
if free == false then return {'wrong-kind'} end
local taken = math.max(free or 0, 0)
counters.remember(idempotency, asked, attempt, integer(taken), '0', window_ms)
if taken > 0 then call('decrby', counter, integer(taken)) end
return {'granted', 0, taken}
