-- Leases of kind "lock": a plain lock, the hash of holder field -> holds. And the functions
-- that every kind has (lock, fair, read, write, permit):
--
--   is_held(lease, lock, token)         the holds of the lease's holder; nil: the lease holds
--                                       nothing (any more). May raise an error where another
--                                       type of key is in the lock's place
--   release(lease, lock)                takes one hold off; frees the lock with the last one
--                                       and wakes a waiter. Returns the holds left; false: none
--                                       was
--   field_removed(lease, lock)          the rest of a release that has removed the holder field
--                                       already. False: the lease had ended before
--   extend(lease, lock, ttl)            the lease lasts at least `ttl` ms from now
--   set_ttl(lease, lock, ttl, holds)    the lease lasts `ttl` ms from now, less than before
--                                       only where no other lease shares the lock
--   left(lease, lock)                   ms that the lease has left; negative: no TTL
--   clear(lease, lock)                  removes what is left of a lease that was lost; nil:
--                                       nothing is. May raise an error as is_held() may
--   wake(lock)                          tells a waiter that it may try again
--   wake_shorter(lock)                  tells all waiters that the lease, which holds, got
--                                       shorter; nil: wake() does
--   leave_queue(lease, lock)            takes the lease out of a queue of its kind; nil: there
--                                       is none beside the waiters that every lock has
--   place_ms                            how long a place lasts without a request; nil: no
--                                       places
--   field_end                           how the holder field ends
--
-- The first write of each function is a command that Redis allows when memory is short.
local keys, holder_of, owner = lib.keys, lib.record.holder_of, lib.owner

-- An owner may have lost the lock and got it again for another lease: the token tells.
local function is_held(lease, lock, token)
  local holds = try('hget', lock, holder_of(lease))
  if type(holds) ~= 'string' then return nil end
  if lease.owner ~= '' and call('get', keys.counter_of(lock)) ~= token then return nil end
  return holds
end

local function release(lease, lock)
  local holder = holder_of(lease)
  if tonumber(call('hget', lock, holder) or 0) > 1 then
    call('hdel', lock, '') -- removes nothing; HINCRBY may be refused when memory is short
    return call('hincrby', lock, holder, -1)
  end
  if call('hdel', lock, holder) == 1 then
    owner.clear(lease, lock)
    lib[lease.kind].wake(lock)
  end
  return 0
end

local function field_removed(lease, lock)
  lib[lease.kind].wake(lock)
  return true
end

local function extend(lease, lock, ttl)
  if call('pttl', lock) >= tonumber(ttl) then return end
  call('pexpire', lock, ttl)
  owner.extend(lease, lock, ttl)
end

local function set_ttl(lease, lock, ttl, holds)
  local remaining, time = call('pttl', lock), tonumber(ttl)
  if holds ~= '1' and time < remaining then time = remaining end
  call('pexpire', lock, lib.number.integer(time))
  owner.extend(lease, lock, lib.number.integer(time))
  -- Waiters sleep for as long as the lock was to last.
  local kind = lib[lease.kind]
  if time < remaining then (kind.wake_shorter or kind.wake)(lock) end
end

local function left(_, lock) return call('pttl', lock) end

local function publish(lock, message)
  call('publish', keys.companion('redisson_lock__channel', lock), message)
end

local function wake(lock) publish(lock, '0') end

-- A Java client wakes one of its threads at a 0, and at a 1 all that sleep by then.
local function wake_shorter(lock)
  publish(lock, '1')
  wake(lock)
end

return {
  is_held = is_held, release = release, field_removed = field_removed, extend = extend,
  set_ttl = set_ttl, left = left, wake = wake, wake_shorter = wake_shorter,
  field_end = ''
}
