-- Forgets losses of which a keep-alive has told the client, and leaves a mark of each: a node
-- that was away when the losses were noted has them, or the notes of their leases, when it is
-- back, and the front end that reads them there reads the mark here.
--
-- KEYS as ../session_keep_alive.lua
-- ARGV ahead_ms told_ms losses...
-- sync no
--
-- ahead_ms  by how much this node's clock is ahead of that of the other times here
-- told_ms   epoch ms when the client had been told
-- losses    of each epoch ms when it was noted, a blank, and its ref
--
-- The token of a lease may be used again when the retry window is over, and this may run later
-- than that: notes that are newer than the loss are of a later lease, and so is a loss that was
-- noted after this one was told. When this node noted the loss, it knows best.
--
-- A mark is a field of `lost`: a blank and the ref -> epoch ms when the loss was noted, a
-- blank, and epoch ms until when the mark is kept. No node has an older state of the session
-- for longer: all of them drop it with the deadline that the last keep-alive gave, and the
-- retry window.
--
-- The first write is one that Redis allows when memory is short.
-- modules

local MARKS_MAX, MARKS_READ = 1000, 100 -- of a session; in one call
local SLACK_MS = 1000 -- of times that another node's clock has told

local function ms_of(text) return tonumber(string.match(text or '', '^%d+')) end

local marks = {}
for i = ARG_LOSSES, #ARGV do
  local noted_ms, ref = string.match(ARGV[i], '^(%d+) (.*)$')
  local own_ms = ms_of(call('hget', lost, ref))
  if not own_ms or own_ms <= told_ms + ahead_ms + SLACK_MS then
    noted_ms = own_ms or noted_ms + ahead_ms
    call('hdel', lost, ref)
    if (ms_of(call('hget', notes, ref)) or 0) < noted_ms then
      call('zrem', due, ref)
      lib.session_home.forget(notes, ref)
    end
    marks[#marks + 1] = {' ' .. ref, noted_ms}
  end
end

local left, now = call('pttl', session), lib.number.epoch_ms()
if left <= 0 then return 0 end
local found = call('hrandfield', lost, MARKS_READ, 'withvalues')
for i = 1, #found, 2 do
  local until_ms = string.sub(found[i], 1, 1) == ' ' and string.match(found[i + 1], '%d+$')
  if until_ms and tonumber(until_ms) <= now then call('hdel', lost, found[i]) end
end
local room = MARKS_MAX - call('hlen', lost)
for i = 1, math.min(#marks, room) do
  local field, noted_ms = unpack(marks[i])
  noted_ms = math.max(noted_ms, ms_of(call('hget', lost, field)) or 0)
  call('hset', lost, field, lib.number.integer(noted_ms) .. ' ' ..
    lib.number.integer(now + left))
end
call('pexpire', lost, left)
return 0
