-- The queue of a fair lock, in the layout of Redisson's RFairLock: a list of waiters, the head
-- first, and a zset of waiter -> epoch ms after which any client may remove the waiter from the
-- list once it is the head: the waiter's time. The entry of a waiter of rlockd, its place, is
-- `<lease id>:0`, also with an owner; `rlockd:places:{<lock>}`, a zset of lease id -> epoch ms,
-- has the time until which the place is kept without a request.
local keys, integer, fair_place = lib.keys, lib.number.integer, lib.fair_place
local FAIR_WAIT_MS, PLACE_MS = fair_place.FAIR_WAIT_MS, fair_place.PLACE_MS

-- Limits of one call: expired waiters that it removes; waiters behind the head that it looks
-- at.
local DEAD_MAX, BEHIND_MAX = 100, 10

-- Every waiter of rlockd tries at least this often, and learns how long the lock is held.
local POLL_MS = 6000

-- Ms since this front end lost Redis, where it has not been able to use Redis for long again;
-- nil: it has.
local lost_ms = nil

local queue_of = keys.queue_of
local times_of, places_of = fair_place.times_of, fair_place.places_of

-- No request could ask for its place: a place that was good when Redis was lost is not over
-- yet. `ms`: as lost_ms, or empty.
local function set_lost_ms(ms) lost_ms = tonumber(ms) end

-- False: the list or the zset is another type of key, so that no client can queue.
local function is_sound(lock)
  return type(try('llen', queue_of(lock))) == 'number' and
    type(try('zcard', times_of(lock))) == 'number'
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

-- Sets a waiter's time to `ms` from now. The first write is a command that Redis allows when
-- memory is short.
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

-- Removes expired waiters from the queue, from the head on, as every client does. Returns the
-- head, and whether it has become the head in this call. `is_free`: the lock is free, so the
-- new head is told to try, and its time is shortened to that of one waiter. `keeps_places`: no
-- place has expired.
--
-- Redisson's clients may lower the time of a waiter that lives, and a waiter without a time
-- blocks them for ever. So a place of rlockd stays as long as requests ask for it, and any
-- other waiter without a time gets one. An expired waiter that is left for the next call gets
-- no time.
local function head_of(lock, now, is_free, keeps_places)
  local queue, times = queue_of(lock), times_of(lock)
  for dead = 0, DEAD_MAX do
    local head = call('lindex', queue, 0)
    if not head then return nil end
    local time = call('zscore', times, head)
    local kept = kept_until(lock, head)
    local is_over = time and tonumber(time) <= now
    local is_dead = is_over
    if kept then is_dead = kept <= now - (lost_ms or 0) and not keeps_places end
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

local function wake_place(lock, place)
  call('publish', keys.companion('redisson_lock__channel', lock) .. ':' .. place, '0')
end

-- Publishes to the head of the queue that the lock is free. If no request waits with the head's
-- place, the message also goes to the first living waiter behind it, which then learns until
-- when the place is kept.
local function call_waiter(lock, head, now)
  wake_place(lock, head)
  if is_awaited(lock, head, now) then return end
  for _, place in ipairs(call('lrange', queue_of(lock), 1, BEHIND_MAX)) do
    if is_awaited(lock, place, now) then return wake_place(lock, place) end
  end
end

-- Publishes to the first waiting request how long the lock is held, if that may be shorter than
-- the waiter's sleep: the former first waiter, which knew this time, has left. A Java client
-- has computed its sleep from the lease times of the waiters before it.
local function publish_end(lock, ms)
  if ms < 0 or ms >= POLL_MS then return end
  local now = lib.number.epoch_ms()
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

-- Calls the head of the queue at the end of a lease, without removing places: only requests for
-- the lock do that, because they know whether Redis was away.
local function call_head(lock, now)
  if call('exists', queue_of(lock)) == 0 or not is_sound(lock) then return end
  local head = head_of(lock, now, true, true)
  if not head then return end
  fair_place.extend_keys(lock)
  call_waiter(lock, head, now)
end

local function position(lock, lease_id)
  return call('lpos', queue_of(lock), lease_id .. ':0')
end

local function length(lock) return call('llen', queue_of(lock)) end

-- Removes expired waiters from the queue of a lock that is held for `remaining` ms.
local function tidy(lock, now, remaining)
  local _, is_new = head_of(lock, now)
  if is_new then publish_end(lock, remaining) end
end

-- The length of the queue, without expired waiters, for a lease that has no place in it. Nil:
-- the lease has one, or the queue is full, or empty, so that nothing tells whether the zset of
-- times is one.
local function length_behind(lock, lease_id, now, remaining)
  if call('zscore', places_of(lock), lease_id) then return nil end
  tidy(lock, now, remaining)
  local count = length(lock)
  return count > 0 and count < lib.first.WAITERS_MAX and count or nil
end

-- Adds a waiter to the queue, or keeps its place for PLACE_MS more. The time of a waiter with
-- further requests is never so short that it would expire before the waiters ahead have left.
-- The list decides which waiters there are, for an operator may have deleted the zset.
local function join(lock, lease_id, now, remaining)
  local place, at = lease_id .. ':0', position(lock, lease_id)
  if not at then return fair_place.take(lock, lease_id, now, remaining, length(lock)) end
  local time = tonumber(call('zscore', times_of(lock), place) or 0)
  if time < now + at * FAIR_WAIT_MS + FAIR_WAIT_MS / 2 then
    set_time(lock, place, (at + 1) * FAIR_WAIT_MS, now)
  end
  call('zadd', places_of(lock), integer(now + PLACE_MS), lease_id)
  fair_place.extend_keys(lock)
end

-- Removes a waiter from the queue. A new head that is told to try gets at most the time of one
-- waiter. True: the removed waiter was the head. The first write is a command that Redis allows
-- when memory is short.
local function leave(lock, lease_id)
  call('zrem', places_of(lock), lease_id)
  if not is_sound(lock) then return false end
  local place, at = lease_id .. ':0', position(lock, lease_id)
  call('zrem', times_of(lock), place)
  if not at then return false end
  call('lrem', queue_of(lock), 1, place)
  if at < length(lock) then fair_place.lower_times(lock, at) end
  return at == 0
end

return {
  set_lost_ms = set_lost_ms,
  is_sound = is_sound, head_of = head_of, is_empty = is_empty, place_left = place_left,
  call_waiter = call_waiter, call_head = call_head, publish_end = publish_end,
  position = position, length = length, tidy = tidy, length_behind = length_behind,
  join = join, leave = leave
}
