-- Removes one attempt without a grant from a lease's note. Without `attempt` the lease has
-- ended, and its note is removed with all attempts.
-- KEYS notes due
-- ARGV ref [attempt]
-- sync no
--
-- Reply  1: the note of the lease is gone by this call | 0: it stays, or there was none
--
-- The script's first write is one that Redis allows when memory is short.
-- modules

if attempt then
  local note = call('hget', notes, ref)
  if not note then return 0 end
  local since, attempts = string.match(note, '^(%d+)( .*)$')
  if not since then return 0 end -- not a note of rlockd
  local first, last = string.find(attempts .. ' ', ' ' .. attempt .. ' ', 1, true)
  if not first then return 0 end
  local others = string.sub(attempts, 1, first - 1) .. string.sub(attempts, last)
  if others ~= '' and not string.find(others, '^ %+%l*$') then -- that it was renewed
    call('hdel', notes, ' ')
    call('hset', notes, ref, since .. others)
    return 0
  end
end
call('zrem', due, ref)
if string.find(ref, '\n', 1, true) then return lib.session_home.forget(notes, ref) end
return call('hdel', notes, ref) -- the common case
