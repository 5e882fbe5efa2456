-- Semaphores whose permits expire.
local keys, number = lib.keys, lib.number

-- The end of a permit that Redisson takes for ever: 2^63 ns in ms, as its TimeUnit says it.
local FOR_EVER = 922337203685477

-- So many dead permits at most come back in one call: the next call goes on.
local RECLAIM_MAX = 100

-- Frees permits whose time is over, as every client does for all of them.
local function reclaim(semaphore, timeouts, now)
  local over = call('zrangebyscore', timeouts, '-inf', number.integer(now), 'limit', 0,
    RECLAIM_MAX)
  if #over == 0 then return end
  call('zrem', timeouts, unpack(over))
  lib.permit.put_back(semaphore, #over)
end

-- What a lease's record says against its being a permit: a reply, or nil.
local function mismatch(lease)
  if lease.state ~= 'ended' and lease.kind ~= 'permit' then return {'reused'} end
  return nil
end

return {FOR_EVER = FOR_EVER, reclaim = reclaim, mismatch = mismatch}
