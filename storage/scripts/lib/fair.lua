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

-- Takes those out whose time is over, from the head on, as every caller does for all others.
-- Returns the head.
local function head_of(lock, now)
  local queue, times = queue_of(lock), times_of(lock)
  while true do
    local head = redis.call('lindex', queue, 0)
    if not head then return nil end
    local time = redis.call('zscore', times, head)
    if not time or tonumber(time) > now then return head end
    redis.call('zrem', times, head)
    redis.call('lpop', queue)
  end
end

-- Ms after which a dead waiter is taken out of the queue: the watchdog sees to those of ours.
local function place_left(lock, place, now)
  local lease_id = string.match(place, '^([^:]*):0$')
  local time = lease_id and redis.call('zscore', 'rlockd:due', lease_id) or
    redis.call('zscore', times_of(lock), place)
  return time and time - now or 0
end

-- Tells the first in the queue that it is his turn.
local function call_head(lock, now)
  local head = head_of(lock, now)
  if head then
    redis.call('publish', companion('redisson_lock__channel', lock) .. ':' .. head, '0')
  end
end

-- Joins the queue, or stays where it is; its time never gets short while somebody asks for it.
local function join_queue(lock, place, now, remaining)
  local queue, times = queue_of(lock), times_of(lock)
  local time = redis.call('zscore', times, place)
  if time then
    if tonumber(time) < now + FAIR_WAIT_MS / 2 then
      redis.call('zadd', times, integer(now + FAIR_WAIT_MS), place)
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
  local queue, times = queue_of(lock), times_of(lock)
  local at = redis.call('lpos', queue, place)
  redis.call('zrem', times, place)
  if not at then return false end
  redis.call('lrem', queue, 1, place)
  for _, behind in ipairs(redis.call('lrange', queue, at, -1)) do
    redis.call('zadd', times, 'xx', 'incr', -FAIR_WAIT_MS, behind)
  end
  return at == 0
end
