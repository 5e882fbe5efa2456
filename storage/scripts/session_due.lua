-- Lists the leases of a session that are due for the watchdog.
-- KEYS session notes due
-- ARGV batch
-- REPLY open age_ms due now_ms deadline_ms [score]
-- REPLY idle next_ms [left_ms]
-- REPLY expired reason name
-- REPLY [due] ref score
-- sync no
--
-- batch  leases to name at most
--
-- Replies  open: age and deadline of the session; now and the deadline are epoch ms. With a
--                score `due` has the refs alone, for all of them have this score
--          idle: nothing is due; ms until the session wants to be visited; at a node of a
--                quorum ms until its deadline
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
-- To print a score costs Redis as much as a short command, and leases that were renewed
-- together have one score.
local FEW = 10

local now_text = lib.number.integer(now)
local found = call('zrangebyscore', due, '-inf', now_text, 'withscores', 'limit', 0,
  math.min(FEW, batch))
if #found == 2 * FEW then
  local score, refs = found[2], {}
  if found[2 * FEW] == score then
    refs = call('zrangebyscore', due, '-inf', now_text, 'limit', 0, batch)
  end
  if refs[1] and call('zscore', due, refs[#refs]) == score then
    return {'open', now - detail, refs, now, deadline, score}
  end
  found = call('zrangebyscore', due, '-inf', now_text, 'withscores', 'limit', 0, batch)
end
if found[1] then return {'open', now - detail, found, now, deadline} end
local first = call('zrange', due, 0, 0, 'withscores')
local next_at = math.min(first[2] or deadline, deadline)
--quorum: if deadline then
--quorum:   return {'idle', math.max(math.ceil(next_at - now), 0), deadline - now}
--quorum: end
return {'idle', math.max(math.ceil(next_at - now), 0)}
