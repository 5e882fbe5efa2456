-- Leases of kind "write": the functions of lib/lock.lua for a read/write lock to write.
local lock_kind = lib.lock

local function release(lease, lock)
  local holder = lib.record.holder_of(lease)
  local holds = tonumber(call('hget', lock, holder)) or 0
  if holds == 0 then return false end
  if holds > 1 then
    call('hdel', lock, '') -- see lib/lock.lua
    return call('hincrby', lock, holder, -1)
  end
  call('hdel', lock, holder)
  lib.owner.clear(lease, lock)
  lib.readers.hold_ended(lock, '1', 0)
  return 0
end

-- The reads of a writer's owner may last longer than the write.
local function set_ttl(lease, lock, ttl, holds)
  lock_kind.set_ttl(lease, lock, math.max(ttl, (lib.readers.longest(lock))), holds)
end

local function wake(lock) lib.readers.wake(lock) end

local function wake_shorter(lock) lib.readers.publish_free(lock, '1') end

return {
  is_held = lock_kind.is_held, release = release, field_removed = lock_kind.field_removed,
  extend = lock_kind.extend, set_ttl = set_ttl, left = lock_kind.left,
  wake = wake, wake_shorter = wake_shorter, field_end = ':write'
}
