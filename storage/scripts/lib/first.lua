-- The first attempt of a request whose token is new and that has no owner, where it finds the
-- lock held: the common case of a wait, in short. lib/request.lua is the long way.

local integer = lib.number.integer

-- So many waiters a lock, at most.
local WAITERS_MAX = 1000

-- Registers the request as a waiter for `wait` ms. `keep`: ms for which its record lasts.
-- False: its token was seen, or too many wait, waiters of the past among them; nothing was
-- written. The first write is one that fails when memory is short.
local function register(record, text, keep, waiters, lease_id, now, wait, window)
  local others = call('zcard', waiters)
  if others >= WAITERS_MAX then return false end
  local attempt, rest = string.match(text, '^held\n\n([^\n]*\n)\n(.*)$')
  text = 'waiting\n\n' .. attempt .. integer(now) .. '\n' .. rest
  if not call('set', record, text, 'nx', 'px', integer(keep)) then return false end
  call('zadd', waiters, integer(now + wait), lease_id)
  if others == 0 or call('pttl', waiters) < wait + window then
    call('pexpire', waiters, integer(wait + window))
  end
  return true
end

return {WAITERS_MAX = WAITERS_MAX, register = register}
