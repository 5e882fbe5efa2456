-- Permit semaphores.
local keys, number = lib.keys, lib.number

-- The end of a permit that Redisson acquires for ever: 2^63 ns, in ms.
local FOR_EVER = 922337203685477

-- The largest number of expired permits that one call frees: the next call goes on.
local RECLAIM_MAX = 100

-- Frees permits whose time is over, as every client does for all of them.
local function reclaim(semaphore, timeouts, now)
  local over = call('zrangebyscore', timeouts, '-inf', number.integer(now), 'limit', 0,
    RECLAIM_MAX)
  if #over == 0 then return end
  call('zrem', timeouts, unpack(over))
  lib.permit.add_free(semaphore, #over)
end

-- The lease has a permit until `ends`, epoch ms. Returns how many free permits that takes: 0,
-- where the lease's own permit is over and no client has reclaimed it. ZADD may be refused when
-- memory is short: not the first write of a script.
local function take(semaphore, timeouts, lease_id, ends)
  local taken = call('zadd', timeouts, number.integer(ends), lib.permit.permit_id(lease_id))
  local semaphore_left = call('pttl', semaphore)
  if semaphore_left > 0 then call('pexpire', timeouts, semaphore_left) end
  return taken
end

return {FOR_EVER = FOR_EVER, reclaim = reclaim, take = take}
