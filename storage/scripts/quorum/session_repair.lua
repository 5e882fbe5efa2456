-- Gives this node a session that is open at a majority, or its later deadline (S2, S3). No
-- effect on a session that was ended here, or after the deadline.
--
-- KEYS as ../session_open.lua lost
-- ARGV as ../session_open.lua to window_ms opened_ms deadline_ms
-- sync no
--
--   KEYS         session notes due lost
--   opened_ms    when it was opened, epoch ms
--   deadline_ms  epoch ms of this node's clock
--
-- Reply  1: the deadline is here now | 0: nothing was changed
-- modules

local SENTINEL_SCORE = '9007199254740991' -- as in ../session_open.lua

local now, deadline = lib.number.epoch_ms(), tonumber(deadline_ms)
local fields = call('hmget', session, 'state', 'deadline')
if deadline <= now or fields[1] == 'ended' then return 0 end
if fields[1] and tonumber(fields[2]) >= deadline then return 0 end
if not fields[1] then
  call('hset', session, 'state', 'open', 'ttl', ttl_ms, 'name', name, 'opened', opened_ms,
    'released', 0)
  call('hset', notes, '', '')
  call('zadd', due, SENTINEL_SCORE, '')
end
call('hset', session, 'deadline', deadline_ms)
for _, key in ipairs(KEYS) do call('pexpire', key, deadline - now + window_ms) end
return 1
