-- What the scripts share about semaphores whose permits expire; needs counter.lua and lease.lua
-- before it.

-- The end of a permit that Redisson takes for ever: 2^63 ns in ms, as its TimeUnit says it.
local FOR_EVER = 922337203685477

-- At most so many dead permits come back in one call: the next call goes on.
local RECLAIM_MAX = 100

-- Frees permits whose time is over, as every caller does for all others.
local function reclaim(semaphore, timeouts, now)
  local over = redis.call('zrangebyscore', timeouts, '-inf', decimal(now), 'limit', 0,
    RECLAIM_MAX)
  if #over == 0 then return end
  redis.call('zrem', timeouts, unpack(over))
  put_back(semaphore, #over)
end

-- What a lease's record says against its being one of a permit of this semaphore.
local function mismatch(record, semaphore)
  if record.lock ~= semaphore then return {'reused'} end
  if record.state == 'ended' then return nil end
  if record.kind ~= 'permit' then return {'reused'} end
  return nil
end
