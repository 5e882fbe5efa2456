-- Releases one lease's hold, or gives up its waiting; the same again gives the same reply
-- within the retry window. A token that was never seen is marked as spent, so that the PUT that
-- this overtook takes nothing.
--
-- KEYS  1 lock
-- ARGV  1 lease id   2 unlock channel   3 retry window in ms
--
-- Replies  0: released, no holds left; the common case
--          released, holds left | ended, reason | reused
--
-- A release is 3 commands. Its first write is one that Redis allows when memory is short.
local lock, lease_id, window = KEYS[1], ARGV[1], ARGV[3]
local lease, text = 'rlockd:lease:' .. lease_id, nil

-- The common case: a holder of this one lease. The last field takes the key with it.
if redis.call('hdel', lock, lease_id .. ':0') == 1 then
  text = redis.call('set', lease, 'ended\nreleased\n\n\n\n\n\n\n\nlock\n\n' .. lock,
    'px', window, 'get')
  -- A lock without a session, and most have no record at all.
  if not text or string.find(text, '\n\n\n\nlock\n\n', 1, true) then
    redis.call('publish', ARGV[2], '0')
    return 0
  end
end

-- include lease

if text then -- all that else belongs to its kind, and to its session
  local was = parse(text)
  if was.kind == 'read' then
    local key = read_key(lock, lease_id .. ':0', 1)
    local own = redis.call('pttl', key)
    redis.call('del', key)
    settle_readers(lock, '0', own)
    if own == -2 then return {'ended', lose(was, lease_id, window)} end
  else
    wake_next(was.kind, lock)
  end
  spend(was, lease_id, 'released', window, 0)
  return {'released', 0}
end

local old = parse(redis.call('get', lease) or nil)
if not old then
  spend({session = '', lock = lock}, lease_id, 'unknown', window)
  return {'ended', 'unknown'}
end
if old.lock ~= lock then return {'reused'} end
if old.state == 'ended' then
  if old.detail == 'released' then return {'released', tonumber(old.token) or 0} end
  return {'ended', old.detail}
end
if old.state == 'waiting' then
  leave_line(old, lease_id)
  spend(old, lease_id, 'released', window)
  redis.call('publish', 'rlockd:leases', lease_id .. ' ' .. lock)
  return {'released', 0}
end
local left = let_go(old, lease_id)
if left then
  spend(old, lease_id, 'released', window, left)
  return {'released', left}
end
return {'ended', lose(old, lease_id, window)}
