-- Renews a lease that still holds: it lasts `ttl` from now. Nothing else is ever renewed.
--
-- KEYS  1 lock   2 fencing counter   3 lease record   4 holder that was forced out last
-- ARGV  1 holder   2 ttl in ms   3 retry window in ms   4 this request's own mark   5 identity
--       6 unlock channel
--
-- Replies  held, token, ttl, record (or "") | busy, remaining ms, holder: it only waits
--          ended, reason | reused
--
-- Every first write is one that Redis allows when memory is short.
local lock, counter, lease, forced = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local holder, ttl, window, mark, identity, channel =
  ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local values = redis.call('mget', counter, lease)
local old = values[2]
if old and string.sub(old, -#identity) ~= identity then return {'reused'} end

if redis.call('hexists', lock, holder) == 1 then
  local remaining = redis.call('pttl', lock)
  redis.call('pexpire', lock, ttl)
  if old then
    -- The mark keeps the request that was granted from taking the lease back: whoever renews it
    -- has been told that it holds.
    local state, detail, _, since, _, rest =
      string.match(old, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
    old = table.concat({state, detail, mark, since, ttl, rest}, '\n')
    redis.call('set', lease, old, 'px', ttl + window)
  end
  -- Waiters sleep as long as they were told that the lock lasts.
  if tonumber(ttl) < remaining then redis.call('publish', channel, '0') end
  return {'held', tonumber(values[1] or 0), tonumber(ttl), old or ''}
end

if not old then return {'ended', 'unknown'} end
local state, detail = string.match(old, '^([^\n]*)\n([^\n]*)\n')
if state == 'waiting' then
  local holders = redis.call('hrandfield', lock, 1)
  return {'busy', redis.call('pttl', lock), holders[1] or ''}
end
if state == 'ended' then return {'ended', detail} end
local reason = redis.call('get', forced) == holder and 'forced' or 'expired'
redis.call('pexpire', lease, window)
redis.call('set', lease, 'ended\n' .. reason .. '\n\n\n\n' .. identity, 'px', window)
return {'ended', reason}
