-- The queue of a fair lock, in the layout of Redisson's RFairLock: a list of waiters, the head
-- first, and a zset of waiter -> epoch ms after which any client may take the waiter out of the
-- list once it is the head. A waiter of ours stands there as `<lease id>:0`, its place, also
-- with an owner; `rlockd:places:{<lock>}`, a zset of lease id -> epoch ms, says until when the
-- place is kept without a request.
local keys, integer = lib.keys, lib.number.integer

-- What Redisson adds to the time of the waiter before for each that joins, and takes off the
-- waiters behind when one leaves: its fairLockWaitTimeout.
local FAIR_WAIT_MS = 300000

-- For how long a place lasts after the last request that asked for it.
local PLACE_MS = 15000

-- No queue is there for ever, whatever became of its clients.
local DAY_MS = 86400000

-- Dead waiters that one call takes out; waiters behind the head that one call looks at; waiters
-- whose times follow when a waiter leaves.
local DEAD_MAX, BEHIND_MAX, FOLLOW_MAX = 100, 10, 100

-- Every waiter of ours looks at the lock at least this often, and learns how long it lasts.
local POLL_MS = 6000

-- Ms since this front end can use Redis again, where that is not long ago; nil: long.
local up_ms = nil

local queue_of = keys.queue_of

local function times_of(lock) return keys.companion('redisson_lock_timeout', lock) end

local function places_of(lock) return keys.sibling(lock, 'places') end

-- No request could ask for its place: no place is over yet. `ms`: as up_ms, or nil.
local function spare_places(ms) up_ms = ms ~= '' and ms or nil end

-- False: another type of key is in the place of one of the two, and no client can queue there.
local function is_sound(lock)
  return type(try('llen', queue_of(lock))) == 'number' and
    type(try('zcard', times_of(lock))) == 'number'
end

-- The lease of a place; nil: the waiter is a Java client.
local function lease_of(place)
  return lib.field.is_ours(place) and string.match(place, '^([^:]*):0$') or nil
end

-- Until when a place of ours lasts without a further request, 0 where no request has asked for
-- it for long; nil: the waiter is a Java client.
local function kept_until(lock, place)
  local lease_id = lease_of(place)
  return lease_id and tonumber(call('zscore', places_of(lock), lease_id) or 0)
end

-- A waiter's time is over in `ms`. Its first write is one that Redis allows when memory is
-- short.
local function set_time(lock, place, ms, now)
  call('zrem', times_of(lock), place)
  call('zadd', times_of(lock), integer(now + ms), place)
end

local function drop_head(lock, place)
  local lease_id = lease_of(place)
  call('zrem', times_of(lock), place)
  call('lpop', queue_of(lock))
  if lease_id then call('zrem', places_of(lock), lease_id) end
end

-- Takes waiters whose time is over out of the queue, from the head on, as every client does for
-- all of them. Returns the head, and whether it has become the head in this call. `is_free`:
-- the head is called, and has no more than a waiter's time. `keeps_places`: no place is over.
--
-- Redisson's clients may lower the time of a waiter that lives, and a waiter without a time is
-- in their way for ever. Places of ours stay as long as requests ask for them; other waiters
-- get a time. A dead waiter that is left for the next call gets none.
local function head_of(lock, now, is_free, keeps_places)
  local queue, times = queue_of(lock), times_of(lock)
  for dead = 0, DEAD_MAX do
    local head = call('lindex', queue, 0)
    if not head then return nil end
    local time = call('zscore', times, head)
    local kept = kept_until(lock, head)
    local is_over = time and tonumber(time) <= now
    local is_dead = is_over
    if kept then is_dead = kept <= now and not up_ms and not keeps_places end
    if not is_dead or dead == DEAD_MAX then
      local is_long = is_free and time and tonumber(time) > now + FAIR_WAIT_MS
      if not is_dead and (is_over or not time or is_long) then
        set_time(lock, head, FAIR_WAIT_MS, now)
      end
      return head, dead > 0
    end
    drop_head(lock, head)
  end
end

-- Whether no client waits in a queue of that name. Places whose requests may be on their way
-- back to a Redis that was away are not touched.
local function is_empty(lock)
  if call('exists', queue_of(lock)) == 0 then return true end
  return is_sound(lock) and not head_of(lock, lib.number.epoch_ms() - PLACE_MS)
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

local function tell(lock, place)
  call('publish', keys.companion('redisson_lock__channel', lock) .. ':' .. place, '0')
end

-- Tells the head of the queue that the lock is free for it. Where no request waits for its
-- place the first waiter behind it that lives is told, too: it learns until when the place is
-- kept.
local function call_waiter(lock, head, now)
  tell(lock, head)
  if is_awaited(lock, head, now) then return end
  for _, place in ipairs(call('lrange', queue_of(lock), 1, BEHIND_MAX)) do
    if is_awaited(lock, place, now) then return tell(lock, place) end
  end
end

-- The first request that waits is told how long the lock lasts, where that may be shorter than
-- the waiter sleeps: whoever was first until now, and knew, waits no more. A Java client has
-- reckoned with the lease times of those before it.
local function tell_end(lock, now, ms)
  if ms < 0 or ms >= POLL_MS then return end
  for _, place in ipairs(call('lrange', queue_of(lock), 0, BEHIND_MAX)) do
    if is_awaited(lock, place, now) then
      if lease_of(place) then
        local channel = keys.companion('redisson_lock__channel', lock) .. ':' .. place
        call('publish', channel, 'held ' .. integer(ms))
      end
      return
    end
  end
end

-- Gives keys of the queue that have no TTL, or not much of it, a day.
local function extend_keys(lock)
  for _, key in ipairs({queue_of(lock), times_of(lock), places_of(lock)}) do
    local left = call('pttl', key)
    if left ~= -2 and left < DAY_MS / 2 then call('pexpire', key, DAY_MS) end
  end
end

-- The same where a lease ends. Places are left to the requests that ask for the lock: they know
-- whether Redis was away.
local function call_head(lock, now)
  if call('exists', queue_of(lock)) == 0 or not is_sound(lock) then return end
  local head = head_of(lock, now, true, true)
  if not head then return end
  extend_keys(lock)
  call_waiter(lock, head, now)
end

-- The time of a waiter that joins behind others. Never later than if each of them had come
-- just now: the times of waiters far behind do not follow when a waiter leaves.
local function time_to_join(lock, now, remaining)
  local last = call('lindex', queue_of(lock), -1)
  local last_time = last and tonumber(call('zscore', times_of(lock), last) or now)
  local own = now + math.max(remaining, 0)
  if not last_time then return own + FAIR_WAIT_MS end
  local most = own + call('llen', queue_of(lock)) * FAIR_WAIT_MS
  return math.min(math.max(last_time, now), most) + FAIR_WAIT_MS
end

local function position(lock, lease_id)
  return call('lpos', queue_of(lock), lease_id .. ':0')
end

local function length(lock) return call('llen', queue_of(lock)) end

-- Joins the queue, or stays in its place, which is kept for PLACE_MS. The time of a waiter
-- whose requests go on is never so short that it would be over when those ahead have left. The
-- list says which waiters there are: an operator may have deleted one of the two keys.
local function join(lock, lease_id, now, remaining)
  local place, at = lease_id .. ':0', position(lock, lease_id)
  if at then
    local time = tonumber(call('zscore', times_of(lock), place) or 0)
    if time < now + at * FAIR_WAIT_MS + FAIR_WAIT_MS / 2 then
      set_time(lock, place, (at + 1) * FAIR_WAIT_MS, now)
    end
  else
    call('zadd', times_of(lock), integer(time_to_join(lock, now, remaining)), place)
    call('rpush', queue_of(lock), place)
  end
  call('zadd', places_of(lock), integer(now + PLACE_MS), lease_id)
  extend_keys(lock)
end

-- A place has gone that was ahead of number `at` on: waiters behind get back the time that the
-- place took them, as far as they are near. Times are Java clients' business: where none is in
-- the queue only the last waiter's time follows, which a Java client would reckon on from.
local function follow(lock, at)
  local times, first, last = times_of(lock), at, at + FOLLOW_MAX - 1
  if call('zcard', times) == call('zcard', places_of(lock)) then first, last = -1, -1 end
  for _, behind in ipairs(call('lrange', queue_of(lock), first, last)) do
    call('zadd', times, 'xx', 'incr', -FAIR_WAIT_MS, behind)
  end
end

-- Leaves the queue. A head that is called gets no more than a waiter's time, whatever time it
-- had. True: it was the head. Its first write is one that Redis allows when memory is short.
local function leave(lock, lease_id)
  call('zrem', places_of(lock), lease_id)
  if not is_sound(lock) then return false end
  local place, at = lease_id .. ':0', position(lock, lease_id)
  call('zrem', times_of(lock), place)
  if not at then return false end
  call('lrem', queue_of(lock), 1, place)
  if at < length(lock) then follow(lock, at) end
  return at == 0
end

return {
  PLACE_MS = PLACE_MS, times_of = times_of, places_of = places_of, spare_places = spare_places,
  is_sound = is_sound, head_of = head_of, is_empty = is_empty, place_left = place_left,
  call_waiter = call_waiter, call_head = call_head, tell_end = tell_end, position = position,
  length = length, join = join, leave = leave, extend_keys = extend_keys
}
