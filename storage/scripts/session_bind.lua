-- Notes that one request (attempt) is about to ask a lock's home for a lease of this session.
-- KEYS session notes due
-- ARGV ref attempt due_ms limit
-- REPLY ended reason
-- sync cluster
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

local fields = call('hmget', session, 'state', 'deadline', 'name')
if not fields[1] then return {'ended', 'unknown'} end
if fields[1] ~= 'open' then return {'ended', call('hget', session, 'reason')} end
local time = call('time')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
-- Numbers with the same count of digits compare as text.
if fields[2] <= now then return {'ended', 'expired'} end

-- Of each lease the sentinel counts for the first lock; its value is that of the further locks.
local locks = call('hlen', notes) + (tonumber(call('hget', notes, '')) or 0)
local due_at = string.format('%d', now + due_ms) -- Redis would print a number more slowly
local is_set, is_due = string.find(ref, '\n', 1, true), false

-- The common case: a new lease of one lock. The zset has the same members as the notes, and its
-- reply says whether the lease is new: to look into a hash of many notes takes longer.
if not is_set and locks <= tonumber(limit) then
  is_due = true
  if call('zadd', due, 'lt', due_at, ref) == 1 then
    call('hset', notes, ref, now .. ' ' .. attempt)
    return fields[3]
  end
end

-- modules
-- A client may confirm a lease again and again, and each request is an attempt that stays. A
-- note with more bytes of them becomes "*", which stands for all requests: no request takes it
-- back, only the lease's end does. The mark of a renewed lease stays.
local ATTEMPTS_BYTES = 500

local note = call('hget', notes, ref)
if not note then
  local further = is_set and lib.session_home.further_locks(ref) or 0
  if locks + further > tonumber(limit) then return {'full'} end
  if is_set then call('hset', notes, '', (tonumber(call('hget', notes, '')) or 0) + further) end
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
if not is_due then call('zadd', due, 'lt', due_at, ref) end
return fields[3]
