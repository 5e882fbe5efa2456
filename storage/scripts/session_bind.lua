-- Notes that one request (attempt) is about to ask a lock's home for a lease of this session.
-- KEYS session notes due
-- ARGV ref attempt due_ms limit
-- REPLY ended reason
-- sync no
--
-- due_ms  ms until the watchdog looks at the lease; never later than noted before
-- limit   locks that a session may have: a lease of several locks counts each of them
--
-- Replies  name of the session: the attempt is noted | ended, reason
--          full: the limit is reached
--
-- The time of a note is that of its newest attempt: a note is forgotten only when every request
-- that it stands for has been answered by the lock's home or is lost.
--
-- Every lease of a session pays for this script: epoch ms stay text where that does.
-- modules

-- A client may confirm a lease again and again, and each request is an attempt that stays. A
-- note with more bytes of them becomes "*", which stands for all requests: no request takes it
-- back, only the lease's end does. The mark of a renewed lease stays.
local ATTEMPTS_BYTES = 500

local fields = call('hmget', session, 'state', 'deadline', 'name', 'reason')
if not fields[1] then return {'ended', 'unknown'} end
if fields[1] ~= 'open' then return {'ended', fields[4]} end
local time = call('time')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
-- Numbers with the same count of digits compare as text.
if fields[2] <= now then return {'ended', 'expired'} end

local found = call('hmget', notes, ref, '')
local note = found[1]
if not note then
  local is_set, further = string.find(ref, '\n', 1, true), tonumber(found[2]) or 0
  if is_set then further = further + lib.session_home.further_locks(ref) end
  -- The sentinel counts for the first lock of this lease.
  if call('hlen', notes) + further > tonumber(limit) then return {'full'} end
  if is_set then call('hset', notes, '', further) end
  note = now .. ' ' .. attempt
elseif string.sub(note, 15) == attempt or string.sub(note, 14) == ' *' then
  note = now .. string.sub(note, 14)
else
  local attempts = string.sub(note, 14)
  if string.find(attempts .. ' ', ' ' .. attempt .. ' ', 1, true) then
    note = now .. attempts
  elseif #attempts + #attempt >= ATTEMPTS_BYTES then
    note = now .. ' *' .. (string.match(attempts, ' %+%l*') or '')
  else
    note = now .. attempts .. ' ' .. attempt
  end
end
call('hset', notes, ref, note)
call('zadd', due, 'lt', now + due_ms, ref)
return fields[3]
