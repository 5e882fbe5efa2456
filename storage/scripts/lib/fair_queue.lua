-- The queue of a fair lock, in the layout of Redisson's RFairLock: a list of waiters, the head
-- first, and a zset of waiter -> epoch ms after which any client may remove the waiter from the
-- list once it is the head: the waiter's time. The entry of a waiter of rlockd, its place, is
-- `<lease id>:0`, also with an owner; `rlockd:places:{<lock>}`, a zset of lease id -> epoch ms,
-- has the time until which the place is kept without a request.
local keys, integer = lib.keys, lib.number.integer
local queue_of = keys.queue_of

-- Redisson's fairLockWaitTimeout: a waiter has the time of the waiter before it plus this; when
-- a waiter leaves, the times of the waiters behind it go down by this.
local FAIR_WAIT_MS = 300000

-- For how long a place lasts after the last request that asked for it.
local PLACE_MS = 15000

-- The TTL of a queue's keys, and how long they outlast a long lease, so that no queue stays for
-- ever. As text: to print a number costs Redis as much as a short command.
local DAY_MS = '86400000'

-- Waiters whose times are lowered when a waiter leaves, at most.
local FOLLOW_MAX = 100

-- Limits of one call: expired waiters that it removes; waiters that it looks at first and then
-- at a time, to find one that is awaited.
local DEAD_MAX, FEW, MANY = 100, 10, 100

-- Between two visits of the watchdog, at least; places that one visit removes, at most.
local VISIT_MIN_MS, VISIT_MAX = 1000, 50

-- Every waiter of rlockd tries at least this often, and learns how long the lock is held.
local POLL_MS = 6000

local function times_of(lock) return keys.companion('redisson_lock_timeout', lock) end

local function places_of(lock) return keys.sibling(lock, 'places') end

-- The number of waiters. Nil: the list or the zset of times is another type of key, so that no
-- client can queue.
local function length(lock)
  local count = try('llen', queue_of(lock))
  local is_sound = type(count) == 'number' and type(try('zcard', times_of(lock))) == 'number'
  return is_sound and count or nil
end

local function is_short(key) return call('pttl', key) < DAY_MS / 2 end

-- Gives the keys of a queue a TTL of a day, if the queue is new, or a key has no TTL or a short
-- one: the places may be new, and Redisson's multi lock gives list and times that of its lease.
local function extend_keys(lock, is_new)
  local queue, places = queue_of(lock), places_of(lock)
  if not is_new and not is_short(places) and not is_short(queue) then return end
  call('pexpire', queue, DAY_MS)
  call('pexpire', times_of(lock), DAY_MS)
  call('pexpire', places, DAY_MS)
end

-- Lets the keys of the queue outlast a lease with `ms` left. A Java client in the queue sleeps
-- as long as the lease, and is woken only if the queue names it.
local function outlast(lock, ms)
  if ms < DAY_MS / 2 or call('pttl', queue_of(lock)) >= ms + DAY_MS / 2 then return end
  if (length(lock) or 0) == 0 then return end
  local keep = integer(ms + DAY_MS)
  for _, key in ipairs({queue_of(lock), times_of(lock), places_of(lock)}) do
    call('pexpire', key, keep)
  end
end

-- The time of a waiter behind so many others, as if all of them had come just now, behind a
-- lease that lasts `remaining` ms.
local function time_behind(others, now, remaining)
  return now + math.max(remaining, 0) + (others + 1) * FAIR_WAIT_MS
end

-- Whether Java clients, which go by the times, are in the queue.
local function has_java(lock)
  return call('zcard', times_of(lock)) ~= call('zcard', places_of(lock))
end

-- The same time for number `at` of the queue, from 0 on, or a later one. A Java client whose
-- turn comes lowers all times by its own wait, and may wait for longer than FAIR_WAIT_MS: so
-- those behind it have its time plus their own.
local function behind_java(lock, at, time)
  if at == 0 or not has_java(lock) then return time end
  local before = call('lindex', queue_of(lock), at - 1)
  return math.max(time, (call('zscore', times_of(lock), before) or 0) + FAIR_WAIT_MS)
end

-- Takes a place at the end of a queue of this length, for PLACE_MS.
local function take(lock, lease_id, now, remaining, others)
  local place = lease_id .. ':0'
  local time = behind_java(lock, others, time_behind(others, now, remaining))
  call('zadd', times_of(lock), integer(time), place)
  call('rpush', queue_of(lock), place)
  call('zadd', places_of(lock), integer(now + PLACE_MS), lease_id)
  extend_keys(lock, others == 0)
  outlast(lock, remaining)
end

-- A place ahead of the waiters from number `at` on was removed: lowers the times of the near
-- waiters behind it. A waiter of rlockd sets its time right with each request. A Java client
-- cannot: where the lock was held for long, its time is short or over, and it gets the time of
-- one waiter.
local function lower_times(lock, at)
  if not has_java(lock) then return end
  local times, least = times_of(lock), lib.number.epoch_ms() + FAIR_WAIT_MS
  for _, behind in ipairs(call('lrange', queue_of(lock), at, at + FOLLOW_MAX - 1)) do
    local time = call('zadd', times, 'xx', 'incr', -FAIR_WAIT_MS, behind)
    if time and tonumber(time) < least then call('zadd', times, integer(least), behind) end
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

-- The lease of a place; nil: the waiter is a Java client.
local function lease_of(place)
  return lib.field.is_ours(place) and string.match(place, '^([^:]*):0$') or nil
end

-- Until when a place of rlockd lasts without a further request, 0 if no request has come for
-- long; nil: the waiter is a Java client.
local function kept_until(lock, place)
  local lease_id = lease_of(place)
  return lease_id and tonumber(call('zscore', places_of(lock), lease_id) or 0)
end

-- Sets a waiter's time. List and times have one TTL: without its time an entry of the list
-- blocks Java clients. Requests with a place of rlockd extend the list themselves. The first
-- write is a command that Redis allows when memory is short.
local function set_time(lock, place, time)
  local times = times_of(lock)
  if not lease_of(place) then call('pexpire', queue_of(lock), DAY_MS) end
  call('pexpire', times, DAY_MS)
  if call('zadd', times, integer(time), place) == 1 then call('pexpire', times, DAY_MS) end
end

local function tell(lock, place, message)
  call('publish', keys.companion('redisson_lock__channel', lock) .. ':' .. place, message)
end

-- Removes a waiter that has expired, which is quick at the head of the queue. A Java client is
-- told: if it lives all the same, it comes back. It would sleep, and nobody else would wake it.
local function drop(lock, place)
  local lease_id = lease_of(place)
  call('zrem', times_of(lock), place)
  call('lrem', queue_of(lock), 1, place)
  if lease_id then
    call('zrem', places_of(lock), lease_id)
  else
    tell(lock, place, '0')
  end
end

-- Removes expired waiters from the queue, from the head on, as every client does. Returns the
-- head, and whether it has become the head in this call. `is_free`: the lock is free, so the
-- new head is told to try, and its time is shortened to that of one waiter. `spared`: ms for
-- which a place stays that has expired.
--
-- Redisson's clients may lower the time of a waiter that lives, and a waiter without a time
-- blocks them for ever. So a place of rlockd stays as long as requests ask for it, and any
-- other waiter without a time gets one. An expired waiter that is left for the next call gets
-- no time.
local function head_of(lock, now, is_free, spared)
  local queue, times = queue_of(lock), times_of(lock)
  for dead = 0, DEAD_MAX do
    local head = call('lindex', queue, 0)
    if not head then return nil end
    local time = call('zscore', times, head)
    local kept = kept_until(lock, head)
    local is_over = time and tonumber(time) <= now
    local is_dead = is_over
    if kept then is_dead = kept <= now - spared end
    if not is_dead or dead == DEAD_MAX then
      local is_long = is_free and time and tonumber(time) > now + FAIR_WAIT_MS
      if not is_dead and (is_over or not time or is_long) then
        set_time(lock, head, now + FAIR_WAIT_MS)
      end
      return head, dead > 0
    end
    drop(lock, head)
  end
end

-- Ms after which a dead waiter is taken out of the queue.
local function place_left(lock, place, now)
  local time = kept_until(lock, place) or call('zscore', times_of(lock), place)
  return time and time - now or 0
end

-- Whether a request waits for the place. A Java client's does.
local function is_awaited(lock, place, now)
  local lease_id = lease_of(place)
  if not lease_id then return true end
  local deadline = call('zscore', keys.sibling(lock, 'waiters'), lease_id)
  return deadline and tonumber(deadline) > now
end

-- The first waiter whose request waits. Places of requests that are gone may be before it.
local function first_awaited(lock, now)
  local from, count = 0, FEW
  while from < lib.first.WAITERS_MAX do
    local places = call('lrange', queue_of(lock), from, from + count - 1)
    for _, place in ipairs(places) do
      if is_awaited(lock, place, now) then return place end
    end
    if #places < count then return nil end
    from, count = from + count, MANY
  end
end

-- Publishes to the head of the queue that the lock is free. If no request waits with the head's
-- place, the message also goes to the first living waiter behind it, which then learns until
-- when the place is kept. A Java client cannot learn that: it would ask without a pause. A
-- visit of the watchdog calls the Java client when the place is over.
local function call_waiter(lock, head, now)
  tell(lock, head, '0')
  local first = first_awaited(lock, now)
  if first and first ~= head and lease_of(first) then tell(lock, first, '0') end
end

-- Publishes to the first waiting request how long the lock is held, if that may be shorter than
-- the waiter's sleep: the former first waiter, which knew this time, has left. A Java client
-- has computed its sleep from the lease times of the waiters before it.
local function publish_end(lock, ms)
  outlast(lock, ms)
  if ms < 0 or ms >= POLL_MS then return end
  local first = first_awaited(lock, lib.number.epoch_ms())
  if first and lease_of(first) then tell(lock, first, 'held ' .. integer(ms)) end
end

-- Calls the head of the queue at the end of a lease, or of one that got shorter (`is_held`),
-- without removing places: only requests for the lock do that, because they know whether Redis
-- was away.
local function call_head(lock, now, is_held)
  local head = length(lock) and head_of(lock, now, not is_held, math.huge)
  if not head then return end
  extend_keys(lock)
  call_waiter(lock, head, now)
end

-- The watchdog's visit, for Java clients, which know nothing of the ends of places. Removes the
-- places that are over, wherever they stand in the queue, and calls the head if the lock is
-- free. Returns ms until the next visit: when the next place may be over, or a lease that ends
-- without a message, where a Java client is the head, which may sleep for longer; at most a
-- day, for the index has a TTL. Nil: no visit is needed. `spared` as of head_of(): of places
-- that it spares the next visit comes soon, for other front ends may know that Redis was there.
local function visit(lock, now, spared)
  local places = places_of(lock)
  for _, lease_id in ipairs(call('zrangebyscore', places, '-inf', integer(now - spared),
    'limit', '0', integer(VISIT_MAX))) do
    drop(lock, lease_id .. ':0')
  end
  local left, head = call('pttl', lock), call('lindex', queue_of(lock), 0)
  if left == -2 then
    head = head_of(lock, now, true, spared)
    if head then call_waiter(lock, head, now) end
  end
  local first = call('zrange', places, 0, 0, 'withscores')[2]
  local next_ms = first and first - now
  if head and not lease_of(head) and left >= 0 then
    next_ms = math.min(next_ms or left, left)
  end
  return next_ms and math.max(math.min(next_ms, tonumber(DAY_MS)), VISIT_MIN_MS)
end

local function are_apart(old, time) return math.abs(time - old) > FAIR_WAIT_MS / 2 end

-- Adds a waiter to the queue, or keeps its place for PLACE_MS more, and sets its time right,
-- which waiters that have left may have made too long, and Java clients too short. The list
-- decides which waiters there are, for an operator may have deleted the zset.
local function join(lock, lease_id, now, remaining)
  local place = lease_id .. ':0'
  local at = call('lpos', queue_of(lock), place)
  if not at then
    return take(lock, lease_id, now, remaining, call('llen', queue_of(lock)))
  end
  local old, time = call('zscore', times_of(lock), place) or 0, time_behind(at, now, remaining)
  if are_apart(old, time) then
    time = behind_java(lock, at, time)
    if are_apart(old, time) then set_time(lock, place, time) end
  end
  call('zadd', places_of(lock), integer(now + PLACE_MS), lease_id)
  extend_keys(lock)
  outlast(lock, remaining)
end

-- Removes a waiter from the queue. A new head that is told to try gets at most the time of one
-- waiter. True: the removed waiter was the head. The first write is a command that Redis allows
-- when memory is short.
local function leave(lock, lease_id)
  call('zrem', places_of(lock), lease_id)
  if not length(lock) then return false end
  local place = lease_id .. ':0'
  local at = call('lpos', queue_of(lock), place)
  call('zrem', times_of(lock), place)
  if not at then return false end
  call('lrem', queue_of(lock), 1, place)
  lower_times(lock, at)
  return at == 0
end

return {
  PLACE_MS = PLACE_MS, places_of = places_of, length = length, extend_keys = extend_keys,
  take = take, give_up_head = give_up_head, head_of = head_of,
  place_left = place_left, call_waiter = call_waiter, call_head = call_head,
  outlast = outlast, publish_end = publish_end, visit = visit, join = join, leave = leave
}
