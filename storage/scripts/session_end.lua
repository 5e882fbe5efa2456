-- Ends a session, and lists its leases, which are then to be released and spent, in batches:
-- call the script again with the refs of the released leases until the reply has no ref.
-- KEYS session notes due lost
-- ARGV reason window_ms batch held forget...
-- REPLY released count refs
-- REPLY open remaining_ms
-- REPLY ended reason
-- sync yes
--
-- reason    released: its client ends it | forced: an operator ends it | expired: its time is
--           over, or another front end has ended it and not worked off its leases | closed, at
--           a node of a quorum: a majority has found that its time is over
-- batch     refs to name at most
-- held      number of refs, the first of `forget`, of leases that held
-- forget    refs of leases that were released
--
-- Replies  released: leases released so far, [ref, ...] | open: not expired
--          ended: before, and for another reason
--
-- A repetition gets the same reply within the window: a lease counts as released when its note
-- is removed, also if two front ends end one session. The first write is a command that Redis
-- allows when memory is short. At a node of a quorum the reasons `released` and `forced` leave
-- a tombstone also where the session is unknown or past its deadline; the reply is `ended`.
-- modules

local now = lib.number.epoch_ms()
local open, why = lib.session_home.open(session, now)
-- At a node of a quorum, where a majority has ended the session, or its client or an operator:
--quorum: if reason == 'closed' then
--quorum:   open, why, reason = nil, 'expired', 'expired'
--quorum: elseif reason ~= 'expired' and not open and
--quorum:   call('hget', session, 'state') ~= 'ended' then
--quorum:   call('pexpire', session, window_ms)
--quorum:   call('hset', session, 'state', 'ended', 'reason', why)
--quorum:   call('pexpire', session, window_ms)
--quorum:   call('publish', 'rlockd:sessions', string.match(session, '{(.*)}'))
--quorum: end
if open and reason == 'expired' then return {'open', open.deadline - now} end
if not open and (why == 'unknown' or reason ~= 'expired' and why ~= reason) then
  return {'ended', why}
end

for _, key in ipairs(KEYS) do call('pexpire', key, window_ms) end
if call('hget', session, 'state') ~= 'ended' then
  call('hset', session, 'state', 'ended', 'reason', reason)
  --quorum: call('pexpire', session, window_ms)
  call('publish', 'rlockd:sessions', string.match(session, '{(.*)}'))
end
call('hdel', notes, '') -- the sentinels
call('zrem', due, '')
local released = 0
for i = ARG_FORGET, #ARGV do
  local is_counted = call('hdel', notes, ARGV[i]) == 1 and i - ARG_FORGET < tonumber(held)
  if is_counted then released = released + 1 end
  call('zrem', due, ARGV[i])
end
return {
  'released', call('hincrby', session, 'released', released),
  call('hrandfield', notes, batch)
}
