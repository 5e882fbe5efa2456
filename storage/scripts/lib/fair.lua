-- Leases of kind "fair": the functions of lib/lock.lua, and the queue of lib/fair_queue.lua.
local lock_kind, queues = lib.lock, lib.fair_queue

local function set_ttl(lease, lock, ttl, holds)
  lock_kind.set_ttl(lease, lock, ttl, holds)
  queues.outlast(lock, tonumber(ttl))
end

local function wake(lock) queues.call_head(lock, lib.number.epoch_ms()) end

local function wake_shorter(lock) queues.call_head(lock, lib.number.epoch_ms(), true) end

-- If the lock is free, the next waiter is told to try; otherwise it is told how long the lock
-- is held, as the former head was.
local function leave_queue(lease, lock)
  if not queues.leave(lock, lease.id) then return end
  local left = call('pttl', lock)
  if left == -2 then return wake(lock) end
  queues.publish_end(lock, left)
end

return {
  is_held = lock_kind.is_held, release = lock_kind.release,
  field_removed = lock_kind.field_removed, extend = lock_kind.extend,
  set_ttl = set_ttl, left = lock_kind.left, wake = wake, wake_shorter = wake_shorter,
  leave_queue = leave_queue, place_ms = lib.fair_queue.PLACE_MS, field_end = ''
}
