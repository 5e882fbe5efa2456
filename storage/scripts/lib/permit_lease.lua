-- Permits of a semaphore are leases of kind "permit": their `lock` is the semaphore, a number
-- of free permits, and beside it stands a zset of permit id -> end in epoch ms.

local function timeouts_of(semaphore) return suffixed(semaphore, 'timeout') end

-- Redisson's permit id is 16 bytes: those of the lease id.
local function permit_id(lease_id)
  local hex = string.gsub(lease_id, '%-', '')
  return (string.gsub(hex, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end

-- Makes permits free again and wakes waiters. Not a script's first write: Redis refuses it when
-- memory is short.
local function put_back(semaphore, count)
  local total = redis.pcall('incrby', semaphore, count)
  if type(total) == 'number' and total > 0 then -- else it is no semaphore any more
    redis.call('publish', companion('redisson_sc', semaphore), integer(total))
  end
end

-- False: somebody took it back already.
local function give_permit_back(semaphore, lease_id)
  if redis.pcall('zrem', timeouts_of(semaphore), permit_id(lease_id)) ~= 1 then return false end
  put_back(semaphore, 1)
  return true
end

-- Ms until a permit ends; nil: it is held no more.
local function permit_left(semaphore, lease_id, now)
  local ends = redis.pcall('zscore', timeouts_of(semaphore), permit_id(lease_id))
  if type(ends) ~= 'string' or tonumber(ends) <= now then return nil end
  return tonumber(ends) - now
end

-- A permit lasts `ttl` from now. Not a script's first write, either.
local function prolong_permit(semaphore, lease_id, now, ttl)
  redis.call('zadd', timeouts_of(semaphore), 'xx', integer(now + ttl), permit_id(lease_id))
end
