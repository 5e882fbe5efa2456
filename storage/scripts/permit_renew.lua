-- Renews a permit that is still held: it lasts `ttl` from now.
--
-- KEYS  1 semaphore   2 the ends of its permits   3 lease record
-- ARGV  1 lease id   2 ttl in ms   3 retry window in ms
--       4 "1": back to the watchdog's care, if the lease has a session
--       5 ms after which a lease that the watchdog keeps is due
--
-- Replies  held, 0, ttl, record, free permits | busy, -1, "": it only waits
--          ended, reason | reused | session-ended, reason | wrong-kind
--
-- Every first write is one that Redis allows when memory is short.
-- include counter
-- include lease
-- include permit
-- include session

local semaphore, timeouts, lease = KEYS[1], KEYS[2], KEYS[3]
local lease_id, ttl, window = ARGV[1], ARGV[2], ARGV[3]

local now = epoch_ms()
local free = read_counter(semaphore)
if free == false then return {'wrong-kind'} end
local old = parse(redis.call('get', lease) or nil)
if not old then return {'ended', 'unknown'} end
local no = mismatch(old, semaphore)
if no then return no end
if old.state == 'ended' then return {'ended', old.detail} end
if old.state == 'waiting' then return {'busy', -1, ''} end
redis.call('pexpire', lease, ttl + window)
local left = permit_left(semaphore, lease_id, now)
if not left then return {'ended', lose(old, lease_id, window)} end
if old.session ~= '' then
  local state, reason = session_state(old.session, now)
  if not state then return {'session-ended', reason} end
end
prolong_permit(semaphore, lease_id, now, ttl)
write_renewed(old, lease_id, ttl, window, ARGV[4], ARGV[5])
reclaim(semaphore, timeouts, now)
free = read_counter(semaphore) or 0
-- Waiters sleep as long as they were told that permits last, and take no number below 1.
if tonumber(ttl) < left then
  redis.call('publish', companion('redisson_sc', semaphore), decimal(math.max(free, 1)))
end
return {'held', 0, tonumber(ttl), format(old), free}
