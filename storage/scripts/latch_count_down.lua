-- Counts a latch down; at zero the latch is deleted and its waiters are woken. For a latch that
-- does not exist no key is changed.
--
-- KEYS latch timeouts waiters [idempotency]
-- ARGV channel window_ms
-- sync yes
--
--   timeouts     the ends of permits: a latch has no such key
--   idempotency  the effect of the request's idempotency key, if it has one
--   window_ms    for which the same request gives the same reply
--
-- Replies  counted, count | replayed, the same once more | reused | wrong-kind
--
-- It works when memory is short: the first write is one that Redis allows.
-- modules
local counter = lib.counter
local asked = counter.asked_for('count-down', '', latch)
local count = counter.read_plain(latch, timeouts)
local reply = idempotency and
  counter.replay(idempotency, counter.recall(idempotency), asked, '')
if reply then return reply end
if count == false then return {'wrong-kind'} end
call('zrem', waiters, '') -- of no effect
local left = 0
if count and count > 1 then
  left = call('decrby', latch, 1)
elseif count then
  call('del', latch)
  if count == 1 then call('publish', channel, '0') end
end
if idempotency then
  counter.remember(idempotency, asked, '', '0', lib.number.integer(left), window_ms)
end
return {'counted', left}
