-- Renews a lease that still holds: it lasts `ttl` from now. Nothing else is ever renewed.
--
-- KEYS  1 lock   2 fencing counter   3 lease record
-- ARGV  1 lease id   2 ttl in ms   3 retry window in ms   4 unlock channel
--       5 "1": back to the watchdog's care, if the lease has a session
--       6 ms after which a lease that the watchdog keeps is due
--
-- Replies  held, token, ttl, record (or ""), holds | busy, remaining ms, holder: it only waits
--          ended, reason | reused | session-ended, reason
--
-- Every first write is one that Redis allows when memory is short.
-- include lease
-- include session

local lock, counter, lease = KEYS[1], KEYS[2], KEYS[3]
local lease_id, ttl, window, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local values = redis.call('mget', counter, lease)
local old = parse(values[2] or nil)
if old and old.lock ~= lock then return {'reused'} end

local function renew(holder)
  local remaining = redis.call('pttl', lock)
  local count = tonumber(redis.call('hget', lock, holder))
  -- Holds of one owner share the TTL: none of them may shorten it for the others.
  if count == 1 or tonumber(ttl) > remaining then redis.call('pexpire', lock, ttl) end
  -- Waiters sleep as long as they were told that the lock lasts.
  if count == 1 and tonumber(ttl) < remaining then redis.call('publish', channel, '0') end
  if not old then return {'held', tonumber(values[1] or 0), tonumber(ttl), '', count} end
  if old.session ~= '' then
    old.watchdog = ARGV[5]
    redis.call('pexpire', lock, redis.call('pttl', lock)) -- a write that is always allowed
    redis.call('zadd', 'rlockd:due', epoch_ms() + (ARGV[5] == '1' and ARGV[6] or ttl), lease_id)
  end
  -- Whoever renews it has been told that it holds: the request that was granted must not take
  -- it back.
  old.mark, old.ttl = '', ttl
  redis.call('pexpire', lease, window)
  redis.call('set', lease, format(old), 'px', ttl + window)
  return {'held', tonumber(values[1] or 0), tonumber(ttl), format(old), count}
end

if not old then
  if redis.call('hexists', lock, lease_id .. ':0') == 1 then return renew(lease_id .. ':0') end
  return {'ended', 'unknown'}
end
if old.state == 'ended' then return {'ended', old.detail} end
if old.state == 'waiting' then
  local holders = redis.call('hrandfield', lock, 1)
  return {'busy', redis.call('pttl', lock), holders[1] or ''}
end
if not holds(old, lease_id) then
  redis.call('pexpire', lease, window)
  return {'ended', lose(old, lease_id, window)}
end
if old.session ~= '' then
  local state, reason = session_state(old.session, epoch_ms())
  if not state then return {'session-ended', reason} end
end
return renew(holder_of(old, lease_id))
