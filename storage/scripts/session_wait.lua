-- Notes that a lease of this session has waited for long, and still waits.
-- KEYS session waits
-- ARGV wait_id waited_ms life_ms limit owner note ref [question]
-- REPLY noted since on_deadlock
-- sync no
--
-- wait_id   of this wait alone: a later wait of the same lease has another id
-- life_ms   ms after which the note ends, unless it is made again
-- limit     notes that a session may have
-- question  whether the lease still waits, as session_waits.lua has published it
--
-- Replies  noted: epoch ms when the wait began; what the session was opened with, or ""
--          full | ended: the session is not open
--
-- The note keeps the time from which on the lease has waited, and the last questions that were
-- answered: lib/session_wait.lua.
-- modules

local now = lib.number.epoch_ms()
if not lib.session_home.deadline_of(session, now) then return {'ended'} end
local ends_at = now + life_ms
local before = lib.session_wait.parse(call('hget', waits, wait_id))
if not before and call('hlen', waits) >= tonumber(limit) then
  local found = call('hrandfield', waits, limit, 'withvalues')
  for i = 1, #found, 2 do
    local wait = lib.session_wait.parse(found[i + 1])
    if not wait or wait.ends_at <= now then call('hdel', waits, found[i]) end
  end
  if call('hlen', waits) >= tonumber(limit) then return {'full'} end
end
local wait = before or {since = now - waited_ms, answered = ''}
if question then wait.answered = lib.session_wait.with_answer(wait.answered, question) end
wait.ends_at, wait.owner, wait.note, wait.ref = ends_at, owner, note, ref
call('hset', waits, wait_id, lib.session_wait.format(wait))
call('pexpire', waits, life_ms)
return {'noted', wait.since, call('hget', session, 'on_deadlock') or ''}
