-- What the scripts share about sessions; needs lease.lua before it.
--
-- rlockd:session:<id>         hash: state (open, ended), reason, ttl, name, opened, deadline
--                             (epoch ms), released (leases let go at its end); TTL: its time
--                             and the retry window
-- rlockd:session-leases:<id>  hash: lease id -> lock, of the leases that it holds
-- rlockd:session-lost:<id>    hash: lease id -> reason, kind and lock, to be told
-- rlockd:sessions             zset: session -> deadline
-- rlockd:due                  zset: lease id -> when it has to be renewed, or is over

-- "open", or nil and why it ended ("unknown": nobody knows such a session).
local function session_state(session, now)
  local state = redis.call('hmget', 'rlockd:session:' .. session, 'state', 'reason', 'deadline')
  if not state[1] then return nil, 'unknown' end
  if state[1] == 'ended' then return nil, state[2] end
  if tonumber(state[3]) <= now then return nil, 'expired' end
  return 'open'
end

-- Releases about `batch` of the session's leases, fewer where they are of several locks, and
-- returns how many are left. From the first call on the session has ended for everyone.
local function end_some(session, reason, now, batch, window)
  local key, leases = 'rlockd:session:' .. session, 'rlockd:session-leases:' .. session
  redis.call('pexpire', key, window) -- a write that is allowed when memory is short
  if redis.call('hget', key, 'state') ~= 'ended' then
    redis.call('hset', key, 'state', 'ended', 'reason', reason)
    redis.call('publish', 'rlockd:sessions', session)
  end
  local released, work = 0, 0
  for _, lease_id in ipairs(redis.call('hrandfield', leases, batch)) do
    if work >= tonumber(batch) then break end
    local record = find_record(lease_id)
    if record and record.state == 'held' then
      if let_go(record, lease_id) then released = released + 1 end
      spend(record, lease_id, 'session-ended', window)
      work = work + #locks_of(record)
    end
    redis.call('hdel', leases, lease_id)
    redis.call('zrem', 'rlockd:due', lease_id)
  end
  redis.call('hincrby', key, 'released', released)
  redis.call('pexpire', key, window)
  local left = redis.call('hlen', leases)
  if left == 0 then
    redis.call('zrem', 'rlockd:sessions', session)
  else
    redis.call('zadd', 'rlockd:sessions', now, session)
  end
  return left
end
