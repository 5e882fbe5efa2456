-- Lists the leases of a session that are due for the watchdog.
-- KEYS session notes due
-- ARGV batch
-- REPLY open age_ms due now_ms deadline_ms
-- REPLY idle next_ms
-- REPLY expired reason name
-- REPLY [due] ref score
-- sync no
--
-- batch  leases to name at most
--
-- Replies  open: age and deadline of the session; now and the deadline are epoch ms
--          idle: nothing is due; ms until the session wants to be visited
--          expired: it is to be ended, or its end is to be worked off
--          unknown: nothing is left to do
-- modules

local now = lib.number.epoch_ms()
-- `detail`: when it was opened, or why it is not open.
local deadline, detail = lib.session_home.deadline_of(session, now)
if not deadline then
  local is_worked_off = call('hget', session, 'state') == 'ended' and
    call('exists', notes) == 0
  if detail == 'unknown' or is_worked_off then return {'unknown'} end
  return {'expired', detail, call('hget', session, 'name')}
end
local found = call('zrangebyscore', due, '-inf', now, 'withscores', 'limit', 0, batch)
if found[1] then return {'open', now - detail, found, now, deadline} end
local first = call('zrange', due, 0, 0, 'withscores')
local next_at = math.min(first[2] or deadline, deadline)
return {'idle', math.max(math.ceil(next_at - now), 0)}
