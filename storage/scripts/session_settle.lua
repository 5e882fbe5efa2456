-- Writes the verdicts of the locks' homes on leases of an open session.
-- KEYS session notes due lost
-- ARGV window_ms again_ms deadline seen marked verdicts...
-- REPLY open next_ms [losses]
-- REPLY ended reason
-- REPLY [loss] ref reason kind
-- sync no
--
-- again_ms  a lease that was renewed is looked at again within this time
-- deadline  of the session, when a visit began; empty: this is no visit
-- seen      epoch ms when the visit was told which leases are due: a note that is newer is of a
--           request whose lease the visit may have missed; at a node of a quorum, how many ms
--           ago that was; empty: now
-- marked    number of refs, the first of `verdicts`, of leases that the watchdog renewed and
--           whose scores say that their notes have the mark of renewed leases
-- verdicts  those refs, then ref and verdict of each other lease, at most 60 of both:
--           renewed <kind>        the watchdog renewed it
--           later <ms>            nothing to do for so long: the lease ends then, or waits
--           gone                  the lease neither holds nor waits; its note stays as long
--                                 as a request for the lease may be under way
--           vanished              the same, and the lease has no record: if it was renewed
--                                 before, Redis lost it, and the next keep-alive names it
--           lost <reason> <kind>  the lease held and is over: the next keep-alive tells it
--
-- Replies  open: ms until the session wants to be visited, and the leases that are lost now, if
--                there are any
--          ended
--
-- A lease without a note was settled before and is skipped. Of a session with an end under way
-- the reply to a visit may be "open", where all leases are marked: they are due later if they
-- are still in the zset, and nothing else changes. The first write is a command that Redis
-- allows when memory is short.
-- modules

local UNDER_WAY_MS, LOOK_AGAIN_MS, LOSSES_MAX = 10000, 1000, 1000
--quorum: LOSSES_MAX = 2 * LOSSES_MAX -- the marks of session_told.lua are among them

local now = lib.number.epoch_ms()
local is_visit, seen_at = tonumber(deadline), tonumber(seen) or now
local open_until, reason = is_visit, nil
--quorum: seen_at = now - (tonumber(seen) or 0)
--quorum: open_until = nil -- each node has its own
if not open_until or #ARGV >= ARG_VERDICTS + marked then
  open_until, reason = lib.session_home.deadline_of(session, now)
  if not open_until then return {'ended', reason} end
end

-- The fraction of a score whose lease was renewed before: its note has the mark " +". A set of
-- the marked refs would cost a visit 5 to 15 % more of Redis' time, and 100 bytes a lease.
local MARK = '.5'

-- Earlier by up to a tenth, so that sessions that were opened at the same time spread; minus
-- 1 ms, so that the mark makes it no later. As text: each lease pays for a number.
local renewed_again = lib.number.integer(
  now + again_ms - 1 - math.floor(now % 97 * again_ms / 970)) .. MARK
local scores, losses, found_at = {}, nil, ''
--quorum: found_at = lib.number.integer(now) .. ' '

local function look_again(ref, at)
  scores[#scores + 1] = at
  scores[#scores + 1] = ref
end

local function forget(ref)
  call('zrem', due, ref)
  lib.session_home.forget(notes, ref)
end

-- `kept`: the note that stays, because a request for the lease may be under way.
local function note_loss(ref, why, kind, kept)
  --quorum: local told = string.match(call('hget', lost, ' ' .. ref) or '', '^%d+')
  --quorum: local noted = string.match(call('hget', notes, ref), '^%d+') or 0
  if kept then
    call('hset', notes, ref, kept)
    look_again(ref, now + math.min(LOOK_AGAIN_MS, again_ms))
  else
    forget(ref)
  end
  -- A request that was refused after the loss was told may have made the note newer; later
  -- the token was used again.
  --quorum: if told and tonumber(noted) <= told + window_ms / 2 then return end
  --quorum: call('hdel', lost, ' ' .. ref)
  if call('hlen', lost) < LOSSES_MAX then
    call('hset', lost, ref, found_at .. why .. '\n' .. kind)
  end
  losses = losses or {}
  local n = #losses
  losses[n + 1], losses[n + 2], losses[n + 3] = ref, why, kind
end

local function settle(ref, verdict)
  local note = call('hget', notes, ref)
  if not note then
    call('zrem', due, ref)
  elseif string.sub(verdict, 1, 8) == 'renewed ' then
    if not string.find(note, ' +', 1, true) then
      call('hset', notes, ref, note .. ' +' .. string.sub(verdict, 9))
    end
    look_again(ref, renewed_again)
  elseif verdict == 'gone' or verdict == 'vanished' then
    local noted = tonumber(string.match(note, '^%d+')) or 0
    local mark = verdict == 'vanished' and string.match(note, ' %+(%l*)')
    local is_old = seen_at - noted > UNDER_WAY_MS
    if mark and noted <= seen_at then
      note_loss(ref, 'unknown', mark, not is_old and (string.gsub(note, ' %+%l*', '')) or nil)
    elseif not mark and is_old then
      forget(ref)
    else
      look_again(ref, now + math.min(LOOK_AGAIN_MS, again_ms))
    end
  elseif string.sub(verdict, 1, 6) == 'later ' then
    -- A request may have settled the lease since the visit found it due.
    local is_settled = is_visit and (tonumber(call('zscore', due, ref)) or 0) > now
    if not is_settled then look_again(ref, now + string.sub(verdict, 7)) end
  else
    -- The record of a lease that ended before does not tell its kind any more.
    local why, kind = string.match(verdict, '^lost (%S*) (%S*)$')
    note_loss(ref, why, string.match(note, ' %+(%l+)') or kind)
  end
end

call('zrem', due, ' ')
-- The common case, which reads no note.
for i = 1, marked do
  scores[2 * i - 1] = renewed_again
  scores[2 * i] = ARGV[i + (ARG_VERDICTS - 1)]
end
if scores[1] then call('zadd', due, 'xx', unpack(scores)) end
scores = {}
for i = ARG_VERDICTS + marked, #ARGV, 2 do settle(ARGV[i], ARGV[i + 1]) end
if scores[1] then call('zadd', due, unpack(scores)) end
if losses then
  call('pexpire', lost, open_until - now + window_ms)
  call('publish', 'rlockd:sessions', string.match(session, '{(.*)}'))
end

local first = call('zrange', due, 0, 0, 'withscores')
local next_at = math.min(first[2] or open_until, open_until)
return {'open', math.max(math.ceil(next_at - now), 0), losses}
