-- Leases of kind "permit": the functions of lib/lock.lua for a permit of a semaphore. The
-- semaphore is a number of free permits; beside it is a zset of permit id -> end in epoch ms.
local keys, number = lib.keys, lib.number

local function timeouts_of(semaphore) return keys.suffixed(semaphore, 'timeout') end

-- Redisson's permit ids are 16 bytes: for rlockd the 16 bytes of the lease id.
local function permit_id(lease_id)
  local hex = string.gsub(lease_id, '%-', '')
  return (string.gsub(hex, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end

-- Makes permits free again and wakes waiters. Not the first write of a script: Redis refuses
-- INCRBY when memory is short.
local function add_free(semaphore, count)
  local total = try('incrby', semaphore, count)
  if type(total) == 'number' and total > 0 then -- else the key is no semaphore any more
    call('publish', keys.companion('redisson_sc', semaphore), number.java_int(total))
  end
end

-- Ms until the permit ends; nil: the lease has none.
local function remaining(lease, semaphore, now)
  local ends = try('zscore', timeouts_of(semaphore), permit_id(lease.id))
  if type(ends) ~= 'string' or tonumber(ends) <= now then return nil end
  return tonumber(ends) - now
end

local function is_held(lease, semaphore)
  return remaining(lease, semaphore, number.epoch_ms()) and 1
end

-- False: another client has freed the permit already.
local function release(lease, semaphore)
  if try('zrem', timeouts_of(semaphore), permit_id(lease.id)) ~= 1 then return false end
  add_free(semaphore, 1)
  return 0
end

-- ZADD may be refused when memory is short: not the first write of a script.
local function extend(lease, semaphore, ttl)
  local ends = number.integer(number.epoch_ms() + ttl)
  call('zadd', timeouts_of(semaphore), 'xx', ends, permit_id(lease.id))
end

local function left(lease, semaphore)
  return remaining(lease, semaphore, number.epoch_ms()) or 0
end

-- Also frees a permit whose time is over and that no client has reclaimed yet.
local function clear(lease, semaphore) release(lease, semaphore) end

return {
  permit_id = permit_id, add_free = add_free, remaining = remaining,
  is_held = is_held, release = release, extend = extend, set_ttl = extend, left = left,
  clear = clear, field_end = ''
}
