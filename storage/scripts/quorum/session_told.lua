-- Forgets losses of which a keep-alive has told the client, and leaves a mark of each: a node
-- that was away when the losses were noted has them, or the notes of their leases, when it is
-- back, and the front end that reads them there reads the mark here.
--
-- KEYS as ../session_keep_alive.lua
-- ARGV refs...
-- sync no
--
-- A mark is a field of `lost`: a blank and the ref -> epoch ms when the loss was told, a blank,
-- and epoch ms until when the mark is kept. No node has an older state of the session for
-- longer: all of them drop it with the deadline that the last keep-alive gave, and the retry
-- window.
--
-- The first write is one that Redis allows when memory is short.
-- modules

local MARKS_MAX, MARKS_READ = 1000, 100 -- of a session; in one call

for i = ARG_REFS, #ARGV do
  call('hdel', lost, ARGV[i])
  call('zrem', due, ARGV[i])
  lib.session_home.forget(notes, ARGV[i])
end

local left, now = call('pttl', session), lib.number.epoch_ms()
if left <= 0 then return 0 end
local found = call('hrandfield', lost, MARKS_READ, 'withvalues')
for i = 1, #found, 2 do
  local until_ms = string.sub(found[i], 1, 1) == ' ' and string.match(found[i + 1], '%d+$')
  if until_ms and tonumber(until_ms) <= now then call('hdel', lost, found[i]) end
end
local room = MARKS_MAX - call('hlen', lost)
for i = ARG_REFS, math.min(#ARGV, ARG_REFS + room - 1) do
  call('hset', lost, ' ' .. ARGV[i], now .. ' ' .. now + left)
end
call('pexpire', lost, left)
return 0
