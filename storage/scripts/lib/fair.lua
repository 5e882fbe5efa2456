-- What the scripts share about fair locks, in the layout of Redisson's RFairLock: the hash of a
-- lock; a list of who waits, the head first; a zset of each one's time, epoch ms, after which
-- anybody may take him out of the list once he is its head. Waiters of ours stand there as
-- `<lease id>:0`, also those of an owner.

-- What Redisson adds to the time of the one before for each that joins, and takes off all
-- others again when he gets in or leaves: its fairLockWaitTimeout.
local FAIR_WAIT_MS = 300000

-- A place in the queue lasts so long after the last request that asked for it.
local PLACE_MS = 15000

-- How often a lock that is free for somebody else is looked at: he may be dead.
local FAIR_PACE_MS = 100

local function queue_of(lock) return companion('redisson_lock_queue', lock) end

local function times_of(lock) return companion('redisson_lock_timeout', lock) end

local function place_of(lease_id) return lease_id .. ':0' end

-- False: one of the two keys is something else, and nobody can queue there.
local function is_queue_sound(lock)
  return type(redis.pcall('llen', queue_of(lock))) == 'number' and
    type(redis.pcall('zcard', times_of(lock))) == 'number'
end

-- Until when a waiter of ours keeps its place without a further request, 0 when nobody has
-- asked for it for long; nil: the waiter is not ours.
local function asked_until(place)
  local lease_id = lease_of_holder(place)
  if not lease_id then return nil end
  return tonumber(redis.call('zscore', 'rlockd:due', lease_id) or 0)
end

-- The waiter's time is `ms` from now. Its first write is one that Redis allows when memory is
-- short.
local function set_waiter_time(lock, place, ms, now)
  redis.call('zrem', times_of(lock), place)
  redis.call('zadd', times_of(lock), integer(now + ms), place)
end

-- Takes those out whose time is over, from the head on, as every caller does for all others.
-- Returns the head, and whether it is one since just now.
--
-- Redisson's clients may lower the time of a waiter that lives, and one without a time stands
-- in their way for ever. Ours stay as long as they ask; others get a time.
local function head_of(lock, now)
  local queue, times = queue_of(lock), times_of(lock)
  local is_new = false
  while true do
    local head = redis.call('lindex', queue, 0)
    if not head then return nil end
    local time = redis.call('zscore', times, head)
    local asked = asked_until(head)
    local is_over = time and tonumber(time) <= now
    if asked == 0 or (is_over and not (asked and asked > now)) then
      redis.call('zrem', times, head)
      redis.call('lpop', queue)
      is_new = true
    else
      if is_over or not time then set_waiter_time(lock, head, FAIR_WAIT_MS, now) end
      return head, is_new
    end
  end
end

-- Ms after which a dead waiter is taken out of the queue: the watchdog sees to those of ours.
local function place_left(lock, place, now)
  local time = asked_until(place) or redis.call('zscore', times_of(lock), place)
  return time and time - now or 0
end

local function call_waiter(lock, place)
  redis.call('publish', companion('redisson_lock__channel', lock) .. ':' .. place, '0')
end

-- Tells the first in the queue that it is his turn.
local function call_head(lock, now)
  local head = is_queue_sound(lock) and head_of(lock, now)
  if head then call_waiter(lock, head) end
end

-- Joins the queue, or stays where it is. The time of one that still asks is never so short that
-- it would be over when those ahead have left. The list says who waits: an operator may have
-- deleted one of the two keys.
local function join_queue(lock, place, now, remaining)
  local queue, times = queue_of(lock), times_of(lock)
  local at = redis.call('lpos', queue, place)
  if at then
    local time = tonumber(redis.call('zscore', times, place) or 0)
    if time < now + at * FAIR_WAIT_MS + FAIR_WAIT_MS / 2 then
      set_waiter_time(lock, place, (at + 1) * FAIR_WAIT_MS, now)
    end
    return
  end
  local last = redis.call('lindex', queue, -1)
  local last_time = last and redis.call('zscore', times, last)
  local base = last_time and tonumber(last_time) or now + math.max(remaining, 0)
  redis.call('zadd', times, integer(math.max(base, now) + FAIR_WAIT_MS), place)
  redis.call('rpush', queue, place)
end

-- Leaves the queue; those behind get the time back that it took them. True: it was the head.
-- Its first write is one that Redis allows when memory is short.
local function leave_queue(lock, place)
  if not is_queue_sound(lock) then return false end
  local queue, times = queue_of(lock), times_of(lock)
  local at = redis.call('lpos', queue, place)
  redis.call('zrem', times, place)
  if not at then return false end
  redis.call('lrem', queue, 0, place)
  for _, behind in ipairs(redis.call('lrange', queue, at, -1)) do
    redis.call('zadd', times, 'xx', 'incr', -FAIR_WAIT_MS, behind)
  end
  return at == 0
end
