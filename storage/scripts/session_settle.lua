-- Writes the verdicts of the locks' homes on leases of an open session.
-- KEYS session notes due lost
-- ARGV window_ms again_ms verdicts...
-- sync no
--
-- again_ms  a lease that was renewed is looked at again within this time
-- verdicts  ref and verdict of each lease, at most 100 pairs:
--           renewed <kind>        the watchdog renewed it
--           later <ms>            nothing to do for so long: the lease ends then, or waits
--           gone                  the lease neither holds nor waits; its note stays as long
--                                 as a request for the lease may be under way
--           vanished              the same, and the lease has no record: if it was renewed
--                                 before, Redis lost it, and the next keep-alive names it
--           lost <reason> <kind>  the lease held and is over: the next keep-alive tells it
--
-- Replies  open, ms until the session wants to be visited | ended, reason
--
-- A lease without a note was settled before and is skipped. The first write is a command that
-- Redis allows when memory is short.
-- modules

local UNDER_WAY_MS, LOOK_AGAIN_MS, LOSSES_MAX = 10000, 1000, 1000

local now = lib.number.epoch_ms()
local deadline, reason = lib.session_home.deadline_of(session, now)
if not deadline then return {'ended', reason} end

-- Earlier by up to a tenth, so that sessions that were opened at the same time spread. As text:
-- each lease pays for a number.
local renewed_again = lib.number.integer(now + again_ms - math.floor(now % 97 * again_ms / 970))
local scores, has_losses = {}, false

local function look_again(ref, at)
  scores[#scores + 1] = at
  scores[#scores + 1] = ref
end

local function forget(ref)
  call('zrem', due, ref)
  call('hdel', notes, ref)
end

local function note_loss(ref, why, kind)
  forget(ref)
  if call('hlen', lost) < LOSSES_MAX then
    call('hset', lost, ref, why .. '\n' .. kind)
  end
  has_losses = true
end

call('zrem', due, ' ')
local refs = {}
for i = 3, #ARGV, 2 do refs[#refs + 1] = ARGV[i] end
for i, note in ipairs(call('hmget', notes, unpack(refs))) do
  local ref, verdict = refs[i], ARGV[2 * i + 2]
  if not note then
    call('zrem', due, ref)
  elseif string.sub(verdict, 1, 8) == 'renewed ' then
    -- The note of a lease that was renewed has " +" and its kind among the attempts.
    if not string.find(note, ' +', 1, true) then
      call('hset', notes, ref, note .. ' +' .. string.sub(verdict, 9))
    end
    look_again(ref, renewed_again)
  elseif verdict == 'vanished' and string.find(note, ' +', 1, true) then
    note_loss(ref, 'unknown', string.match(note, ' %+(%l*)'))
  elseif verdict == 'gone' or verdict == 'vanished' then
    if now - (string.match(note, '^%d+') or 0) > UNDER_WAY_MS then
      forget(ref)
    else
      look_again(ref, now + math.min(LOOK_AGAIN_MS, again_ms))
    end
  elseif string.sub(verdict, 1, 6) == 'later ' then
    look_again(ref, now + string.sub(verdict, 7))
  else
    note_loss(ref, string.match(verdict, '^lost (%S*) (%S*)$'))
  end
end
if #scores > 0 then call('zadd', due, unpack(scores)) end
if has_losses then
  call('pexpire', lost, deadline - now + window_ms)
  call('publish', 'rlockd:sessions', string.match(session, '{(.*)}'))
end

local first = call('zrange', due, 0, 0, 'withscores')
return {'open', math.max(math.min(first[2] or deadline, deadline) - now, 0)}
