-- Opens a session. A session that is open already stays as it is.
-- KEYS session notes due
-- ARGV ttl_ms name window_ms [is_returned] [on_deadlock]
-- REPLY opened|open remaining_ms
-- REPLY ended reason
-- sync yes
--
-- window_ms    ms for which an ended session is remembered after its deadline
-- is_returned  "1": the server made the token some time ago, so the session is open or spent
-- on_deadlock  "refuse": a request that closes a deadlock is refused; else ""
--
-- Replies  opened | open: it was before | ended | reused
-- modules

local SENTINEL_SCORE = '9007199254740991' -- later than any visit

local now = lib.number.epoch_ms()
local open, reason = lib.session_home.open(session, now)
if open then
  local is_same = (call('hget', session, 'on_deadlock') or '') == (on_deadlock or '')
  if open.ttl ~= tonumber(ttl_ms) or open.name ~= name or not is_same then
    return {'reused'}
  end
  return {'open', open.deadline - now}
end
--quorum: if call('exists', session) == 1 then return {'ended', reason} end
if reason ~= 'unknown' or is_returned == '1' then return {'ended', reason} end
call('hset', session, 'state', 'open', 'ttl', ttl_ms, 'name', name, 'opened', now,
  'deadline', now + ttl_ms, 'released', 0)
if on_deadlock and on_deadlock ~= '' then
  call('hset', session, 'on_deadlock', on_deadlock)
end
call('hset', notes, '', '')
call('zadd', due, SENTINEL_SCORE, '')
for _, key in ipairs(KEYS) do call('pexpire', key, ttl_ms + window_ms) end
return {'opened', tonumber(ttl_ms)}
