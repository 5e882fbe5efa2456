-- Renews a lease that still holds: it lasts `ttl` from now. Nothing else is ever renewed.
--
-- KEYS  1 lock   2 fencing counter   3 lease record
-- ARGV  1 lease id   2 ttl in ms   3 retry window in ms
--       4 "1": back to the watchdog's care, if the lease has a session
--       5 ms after which a lease that the watchdog keeps is due
--
-- Replies  held, token, ttl, record (or ""), holds | busy, remaining ms, holder: it only waits
--          ended, reason | reused | session-ended, reason
--
-- Every first write is one that Redis allows when memory is short.
-- include lease
-- include session

local lock, counter, lease = KEYS[1], KEYS[2], KEYS[3]
local lease_id, ttl, window = ARGV[1], ARGV[2], ARGV[3]

local values = redis.call('mget', counter, lease)
local old = parse(values[2] or nil)
if not old then
  if redis.call('hexists', lock, lease_id .. ':0') == 0 then return {'ended', 'unknown'} end
  set_time({kind = 'lock', owner = ''}, lease_id, lock, ttl)
  return {'held', values[1] or '0', ttl, '', redis.call('hget', lock, lease_id .. ':0')}
end
if old.lock ~= lock then return {'reused'} end
if old.state == 'ended' then return {'ended', old.detail} end
if old.state == 'waiting' then
  return {'busy', redis.call('pttl', lock), find_holder(lock) or ''}
end
if not holds(old, lease_id) then
  redis.call('pexpire', lease, window)
  return {'ended', lose(old, lease_id, window)}
end
if old.session ~= '' then
  local state, reason = session_state(old.session, epoch_ms())
  if not state then return {'session-ended', reason} end
end

begin_writing(lock)
set_time(old, lease_id, lock, ttl)
write_renewed(old, lease_id, ttl, window, ARGV[4], ARGV[5])
local token = old.token ~= '' and old.token or values[1] or '0'
return {'held', token, ttl, format(old), redis.call('hget', lock, holder_of(old, lease_id))}
