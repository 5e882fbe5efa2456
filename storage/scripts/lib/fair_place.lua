-- Places in the queue of a fair lock (lib/fair_queue.lua): a place is taken at the end of the
-- queue, and given up at its head.
local keys, integer = lib.keys, lib.number.integer
local queue_of = keys.queue_of

-- Redisson's fairLockWaitTimeout: a waiter that joins gets the time of the waiter before it
-- plus this; when a waiter leaves, the times of the waiters behind it go down by this.
local FAIR_WAIT_MS = 300000

-- For how long a place lasts after the last request that asked for it.
local PLACE_MS = 15000

-- The TTL of a queue's keys, so that no queue stays for ever. As text: to print a number costs
-- Redis as much as a short command.
local DAY_MS = '86400000'

-- Waiters whose times are lowered when a waiter leaves, at most.
local FOLLOW_MAX = 100

local function times_of(lock) return keys.companion('redisson_lock_timeout', lock) end

local function places_of(lock) return keys.sibling(lock, 'places') end

-- Gives keys of the queue that have no TTL, or a short one, a TTL of a day.
local function extend_keys(lock)
  for _, key in ipairs({queue_of(lock), times_of(lock), places_of(lock)}) do
    local left = call('pttl', key)
    if left ~= -2 and left < DAY_MS / 2 then call('pexpire', key, DAY_MS) end
  end
end

-- The time of a waiter that joins behind others. Never later than if all waiters before it had
-- come just now, for the times of waiters far behind are not lowered when a waiter leaves.
local function time_to_join(lock, now, remaining, length)
  local own = now + math.max(remaining, 0)
  if length == 0 then return own + FAIR_WAIT_MS end
  local last = call('lindex', queue_of(lock), -1)
  local last_time = tonumber(call('zscore', times_of(lock), last) or now)
  local most = own + length * FAIR_WAIT_MS
  return math.min(math.max(last_time, now), most) + FAIR_WAIT_MS
end

-- Takes a place at the end of a queue of this length, for PLACE_MS. `is_new`: neither the list
-- nor the zset of times is there yet.
local function take(lock, lease_id, now, remaining, length, is_new)
  local queue, times, places = queue_of(lock), times_of(lock), places_of(lock)
  call('zadd', times, integer(time_to_join(lock, now, remaining, length)), lease_id .. ':0')
  call('rpush', queue, lease_id .. ':0')
  call('zadd', places, integer(now + PLACE_MS), lease_id)
  if not is_new then return extend_keys(lock) end
  call('pexpire', queue, DAY_MS)
  call('pexpire', times, DAY_MS)
  call('pexpire', places, DAY_MS)
end

-- A place ahead of the waiters from number `at` on was removed: lowers the times of the near
-- waiters behind it. Only Java clients use these times: without a Java client in the queue only
-- the last waiter's time is lowered, from which a joining Java client would go on.
local function lower_times(lock, at)
  local times, first, last = times_of(lock), at, at + FOLLOW_MAX - 1
  if call('zcard', times) == call('zcard', places_of(lock)) then first, last = -1, -1 end
  for _, behind in ipairs(call('lrange', queue_of(lock), first, last)) do
    call('zadd', times, 'xx', 'incr', -FAIR_WAIT_MS, behind)
  end
end

-- Gives up the place of a lease that is the head of the queue, and returns how many waiters are
-- left. Nil: the zset of times is another type of key; nothing was done. The first write is a
-- command that Redis allows when memory is short.
local function give_up_head(lock, lease_id)
  local queue, times, places = queue_of(lock), times_of(lock), places_of(lock)
  if type(try('zrem', times, lease_id .. ':0')) ~= 'number' then return nil end
  local left = call('llen', queue) - 1
  if left == 0 then
    call('del', queue, times, places)
  else
    call('zrem', places, lease_id)
    call('lpop', queue)
    lower_times(lock, 0)
  end
  return left
end

return {
  FAIR_WAIT_MS = FAIR_WAIT_MS, PLACE_MS = PLACE_MS, times_of = times_of, places_of = places_of,
  extend_keys = extend_keys, take = take, lower_times = lower_times, give_up_head = give_up_head
}
