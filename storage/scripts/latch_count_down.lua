-- Counts a latch down; at zero the latch is deleted and its waiters are woken. For a latch that
-- does not exist no key is changed.
--
-- KEYS as semaphore_release.lua
-- ARGV channel window_ms
-- REPLY counted|replayed value
-- sync yes
--
--   timeouts     the ends of permits: a latch has no such key
--   idempotency  the effect of the request's idempotency key, if it has one
--   window_ms    for which the same request gives the same reply
--
-- Replies  counted: the count that is left | replayed: the same once more | reused | wrong-kind
--
-- It works when memory is short: the first write is one that Redis allows.
-- modules
local counters = lib.counter
local asked = counters.asked_for('count-down', '', counter)
local count = counters.read_plain(counter, timeouts)
local reply = idempotency and
  counters.replay(idempotency, counters.recall(idempotency), asked, '')
if reply then return reply end
if count == false then return {'wrong-kind'} end
call('zrem', waiters, '') -- of no effect
local left = 0
if count and count > 1 then
  left = call('decrby', counter, 1)
elseif count then
  call('del', counter)
  if count == 1 then call('publish', channel, '0') end
end
if idempotency then
  counters.remember(idempotency, asked, '', '0', lib.number.integer(left), window_ms)
end
return {'counted', left}
