-- Opens a session, or says that it is open already.
--
-- KEYS  1 session   2 all sessions
-- ARGV  1 session id   2 ttl in ms   3 name   4 retry window in ms
--       5 "1": a token of the server's own came back: it is open, or it is spent
--
-- Replies  opened, remaining ms | open, remaining ms | ended, reason | reused
-- include lease
-- include session

local session, sessions = KEYS[1], KEYS[2]
local session_id, ttl, name, window, made = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'

local now = epoch_ms()
local state, reason = session_state(session_id, now)
if state then
  local known = redis.call('hmget', session, 'ttl', 'name', 'deadline')
  if known[1] ~= ttl or known[2] ~= name then return {'reused'} end
  return {'open', known[3] - now}
end
if reason ~= 'unknown' or made then return {'ended', reason} end
local deadline = now + ttl
redis.call('hset', session, 'state', 'open', 'ttl', ttl, 'name', name, 'opened', integer(now),
  'deadline', integer(deadline), 'released', 0)
redis.call('pexpire', session, ttl + window)
redis.call('zadd', sessions, deadline, session_id)
return {'opened', tonumber(ttl)}
