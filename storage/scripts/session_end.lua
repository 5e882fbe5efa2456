-- Ends a session, and names the leases that are to be released and spent, a batch at a time:
-- call again with the refs of the leases that were worked off until no ref comes.
-- KEYS session notes due
-- ARGV reason window_ms batch held forget...
-- sync yes
--
-- reason    released: its client ends it | expired: its time is over, or another front end has
--           ended it and not worked off its leases
-- batch     refs to name at most
-- held      how many refs, the first of `forget`, are those of leases that held
-- forget    refs of leases that were worked off
--
-- Replies  released, leases released so far, [ref, ...] | open, remaining ms: not expired
--          ended, reason: before, and for another reason
--
-- The same again gives the same reply within the window: a lease counts when its note goes,
-- also where two front ends work off one session. The first write is one that Redis allows when
-- memory is short.
-- modules

local now = lib.number.epoch_ms()
local open, why = lib.session_home.open(session, now)
if open and reason == 'expired' then return {'open', open.deadline - now} end
if not open and (why == 'unknown' or reason == 'released' and why ~= 'released') then
  return {'ended', why}
end

for _, key in ipairs(KEYS) do call('pexpire', key, window_ms) end
if call('hget', session, 'state') ~= 'ended' then
  call('hset', session, 'state', 'ended', 'reason', reason)
  call('publish', 'rlockd:sessions', string.match(session, '{(.*)}'))
end
call('hdel', notes, '') -- the sentinels
call('zrem', due, '')
local released = 0
for i = 5, #ARGV do
  local is_counted = call('hdel', notes, ARGV[i]) == 1 and i - 4 <= tonumber(held)
  if is_counted then released = released + 1 end
  call('zrem', due, ARGV[i])
end
return {
  'released', call('hincrby', session, 'released', released),
  call('hrandfield', notes, batch)
}
