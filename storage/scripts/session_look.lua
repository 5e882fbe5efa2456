-- Looks at a session: what it still holds, what it lost. As a keep-alive it prolongs its life,
-- and lets go of leases that its client does not know of.
--
-- KEYS  1 session   2 its leases   3 what it lost   4 all sessions
-- ARGV  1 session id   2 retry window in ms   3 "1": a keep-alive   4 ms since it arrived
--       5 ms that it wants to wait for its answer
--       6 "1": the client has said what it holds   7 the lease ids, each followed by a blank
--
-- Replies  open, remaining ms, ttl, age in ms, name,
--            [lease id, lock, remaining ms, token, owner, ttl, watchdog, note,
--             kind, ...]; of several locks their names, a newline before each, and their
--             tokens, a blank between,
--            [lease id, reason, kind and lock, ...] of what was lost and not told yet
--          ended, reason | wait-too-long, ttl
-- include lease
-- include session

local session, leases, lost, sessions = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local session_id, window, is_keep_alive, age = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]

local now = epoch_ms()
local state, reason = session_state(session_id, now)
if not state then return {'ended', reason} end
local known = redis.call('hmget', session, 'ttl', 'opened', 'name', 'deadline')
local ttl, deadline = tonumber(known[1]), tonumber(known[4])

if tonumber(ARGV[5]) > ttl / 2 then return {'wait-too-long', ttl} end

if is_keep_alive then
  -- An older keep-alive that comes late does not take back what a newer one gave.
  deadline = math.max(deadline, now - age + ttl)
  for _, key in ipairs({session, leases, lost}) do
    redis.call('pexpire', key, deadline - now + window) -- allowed when memory is short
  end
  redis.call('hset', session, 'deadline', integer(deadline))
  redis.call('zadd', sessions, deadline, session_id)
end

local claimed = nil
if ARGV[6] == '1' then
  claimed = {}
  for lease_id in string.gmatch(ARGV[7], '%S+') do claimed[lease_id] = true end
end

-- A grant whose answer never reached the client: nobody would ever release it.
local function is_unclaimed(record, lease_id)
  return claimed and not claimed[lease_id] and (tonumber(record.since) or 0) < now - ttl
end

local held = {}
for _, lease_id in ipairs(redis.call('hkeys', leases)) do
  local record = find_record(lease_id)
  if not record or record.state ~= 'held' then
    redis.call('hdel', leases, lease_id)
    redis.call('zrem', 'rlockd:due', lease_id)
  elseif not holds(record, lease_id) then
    lose(record, lease_id, window)
  elseif is_unclaimed(record, lease_id) then
    let_go(record, lease_id)
    spend(record, lease_id, 'released', window)
  else
    local remaining = time_left(record, lease_id)
    for _, value in ipairs({lease_id, names_of(record), remaining,
      record.token, record.owner, tonumber(record.ttl), record.watchdog, record.note,
      record.kind}) do
      held[#held + 1] = value
    end
  end
end
return {
  'open', deadline - now, ttl, now - known[2], known[3], held, redis.call('hgetall', lost)
}
