-- Adds permits to a semaphore and wakes waiters. As with Redisson the permits need not have
-- been taken before, and `permits_max` is the only limit.
--
-- KEYS as counter_look.lua [idempotency]
-- ARGV permits channel window_ms permits_max create
-- REPLY released|replayed value permits
-- REPLY too-large value
-- sync yes
--
--   idempotency  of a request with a key
--   window_ms    for which the same request gives the same reply
--   permits_max  the most that the semaphore may have
--   create       "1": a semaphore that is not there is made
--
-- Replies  released: the free permits, and the permits added | replayed: the same once more
--          reused | wrong-kind | missing | too-large: the free permits
--
-- The script works when memory is short: its first write has no effect and is a command that
-- Redis allows.
-- modules
local counters, integer = lib.counter, lib.number.integer
local asked = counters.asked_for('release', permits, counter)
local free = counters.read_plain(counter, timeouts)
local reply = idempotency and
  counters.replay(idempotency, counters.recall(idempotency), asked, '')
if reply then return reply end
if free == false then return {'wrong-kind'} end
if not free and create ~= '1' then return {'missing'} end
if (free or 0) + permits > tonumber(permits_max) then return {'too-large', free} end
call('zrem', waiters, '')
local total = call('incrby', counter, permits)
-- A semaphore may owe permits; Redisson's listeners want a positive number.
if total > 0 then call('publish', channel, lib.number.java_int(total)) end
if idempotency then
  counters.remember(idempotency, asked, '', permits, integer(total), window_ms)
end
return {'released', total, tonumber(permits)}
