-- The queue of a fair lock, in the layout of Redisson's RFairLock: a list of waiters, the head
-- first, and a zset of waiter -> epoch ms after which any client may remove the waiter from the
-- list once it is the head: the waiter's time. The entry of a waiter of rlockd, its place, is
-- `<lease id>:0`, also with an owner; `rlockd:places:{<lock>}`, a zset of lease id -> epoch ms,
-- has the time until which the place is kept without a request: its end.
--
-- Java clients go by the times alone, and no front end may be left to remove a place. So the
-- time of a place is its end plus JAVA_MORE_MS, plus the waits of the Java clients before it,
-- because Redisson lowers all times behind a Java client that leaves by this client's wait. The
-- time of a Java client behind a place is the time of the place plus the client's wait, as
-- Redisson computes it when the client joins; each request for the place moves both.
local keys, integer = lib.keys, lib.number.integer
local queue_of = keys.queue_of

-- Redisson's fairLockWaitTimeout: the wait of a Java client that sets no limit.
local FAIR_WAIT_MS = 300000

-- For how long a place lasts after the last request that asked for it.
local PLACE_MS = 15000

-- For so much longer Java clients keep a place. Meanwhile the next request for a place before
-- this one removes it, so that no Java client joins behind a time that is over: Redisson's
-- lock() would sleep without a limit.
local JAVA_MORE_MS = 5000

-- The TTL of a queue's keys, so that no queue stays for ever. As text: to print a number costs
-- Redis as much as a short command.
local DAY_MS = '86400000'

-- Waiters before a place, and behind it, that a request for the place looks at, at most.
local NEAR_MAX = 100

-- Limits of one call: expired waiters that it removes; waiters that it looks at first and then
-- at a time, to find one that is awaited; FEW is also the number of places that it tells in
-- vain.
local DEAD_MAX, FEW, MANY = 100, 10, 100

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

-- Gives the keys of a queue a TTL of a day, if the queue is new, or the key of its places has
-- no TTL or a short one.
local function extend_keys(lock, is_new)
  local places = places_of(lock)
  if not is_new and call('pttl', places) >= DAY_MS / 2 then return end
  call('pexpire', queue_of(lock), DAY_MS)
  call('pexpire', times_of(lock), DAY_MS)
  call('pexpire', places, DAY_MS)
end

-- Takes a place at the end of a queue of this length, for PLACE_MS. `waits`: ms that the Java
-- clients in the queue wait.
local function take(lock, lease_id, now, others, waits)
  local place = lease_id .. ':0'
  call('zadd', times_of(lock), integer(now + PLACE_MS + JAVA_MORE_MS + waits), place)
  call('rpush', queue_of(lock), place)
  call('zadd', places_of(lock), integer(now + PLACE_MS), lease_id)
  extend_keys(lock, others == 0)
end

-- Whether all of these `count` waiters are places that are not over.
local function is_ours(lock, count, now)
  return call('zcount', places_of(lock), integer(now), '+inf') == count
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

-- Sets a waiter's time. The first write is a command that Redis allows when memory is short.
local function set_time(lock, place, time)
  local times = times_of(lock)
  call('pexpire', times, DAY_MS)
  if call('zadd', times, integer(time), place) == 1 then call('pexpire', times, DAY_MS) end
end

local function tell(lock, place, message)
  local channel = keys.companion('redisson_lock__channel', lock) .. ':' .. place
  return call('publish', channel, message)
end

-- A Java client that is removed is told to try: if it lives, it joins the queue again.
local function drop_head(lock, place)
  local lease_id = lease_of(place)
  call('zrem', times_of(lock), place)
  call('lpop', queue_of(lock))
  if lease_id then call('zrem', places_of(lock), lease_id) else tell(lock, place, '0') end
end

-- The time that a living head has to have: of a place its end, and of a Java client what it has
-- been given, but, where the lock is free, at most the wait of one waiter.
local function time_of_head(time, kept, now, is_free)
  if kept then return kept + JAVA_MORE_MS end
  if not time or (is_free and time > now + FAIR_WAIT_MS) then return now + FAIR_WAIT_MS end
  return time
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
    local time = tonumber(call('zscore', times, head) or nil)
    local kept = kept_until(lock, head)
    local is_dead
    if kept then is_dead = kept <= now - spared else is_dead = time and time <= now end
    if not is_dead or dead == DEAD_MAX then
      local due = time_of_head(time, kept, now, is_free)
      if not is_dead and due ~= time then set_time(lock, head, due) end
      return head, dead > 0
    end
    drop_head(lock, head)
  end
end

-- Whether no client waits in a queue of that name. Places whose requests may be on their way
-- back to a Redis that was away are not touched.
local function is_empty(lock)
  local count, now = length(lock), lib.number.epoch_ms()
  return count == 0 or count and not head_of(lock, now - PLACE_MS, false, 0)
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

-- The first waiter whose request waits, and that `accept` takes. Places of requests that are
-- gone may be before it.
local function first_awaited(lock, now, accept)
  local from, count = 0, FEW
  while from < lib.first.WAITERS_MAX do
    local places = call('lrange', queue_of(lock), from, from + count - 1)
    for _, place in ipairs(places) do
      if is_awaited(lock, place, now) and accept(place) then return place end
    end
    if #places < count then return nil end
    from, count = from + count, MANY
  end
end

-- Publishes to the head of the queue that the lock is free. If no request waits with the head's
-- place, or no front end listens any more to the place's channel, the message also goes to the
-- first living waiter behind it, which then learns until when the place is kept. Behind many
-- places that nobody listens for, this is the first Java client: waiters of rlockd poll.
local function call_waiter(lock, head, now)
  local heard = tell(lock, head, '0')
  if is_awaited(lock, head, now) and (heard > 0 or not lease_of(head)) then return end
  local unheard = 0
  first_awaited(lock, now, function(place)
    if place == head or (unheard == FEW and lease_of(place)) then return false end
    unheard = unheard + 1
    return tell(lock, place, '0') > 0 or not lease_of(place)
  end)
end

-- Publishes to the first waiting request how long the lock is held, if that may be shorter than
-- the waiter's sleep: the former first waiter, which knew this time, has left. A Java client
-- has computed its sleep from the lease times of the waiters before it.
local function publish_end(lock, ms)
  if ms < 0 or ms >= POLL_MS then return end
  local first = first_awaited(lock, lib.number.epoch_ms(), function() return true end)
  if first and lease_of(first) then tell(lock, first, 'held ' .. integer(ms)) end
end

-- Calls the head of the queue at the end of a lease, without removing places: only requests for
-- the lock do that, because they know whether Redis was away.
local function call_head(lock, now)
  local head = length(lock) and head_of(lock, now, true, math.huge)
  if not head then return end
  extend_keys(lock)
  call_waiter(lock, head, now)
end

-- Java clients that remove a place leave its end.
local function forget_ends(lock, now, spared)
  call('zremrangebyscore', places_of(lock), '-inf', integer(now - spared))
end

-- The waits of the Java clients among the first `at` waiters, in ms. Behind a place they follow
-- from the times. Before all places they do not, as the lease may have been extended since:
-- then they are a multiple of FAIR_WAIT_MS, if one is near. `known`: the waits as of the last
-- request for the place at `at`, less those of Java clients that have left since; nil: there
-- was none.
local function waits_before(lock, at, known, now, remaining)
  if at == 0 then return 0 end
  local before = call('lrange', queue_of(lock), math.max(at - NEAR_MAX, 0), at - 1)
  local last = call('zscore', times_of(lock), before[#before])
  if not last then return 0 end
  for i = #before, 1, -1 do
    local kept = kept_until(lock, before[i])
    if kept and kept > 0 then return math.max(last - kept - JAVA_MORE_MS, 0) end
  end
  if known then return math.max(known, 0) end
  local left = last - now - math.max(remaining, 0)
  return math.max(left, FAIR_WAIT_MS * math.floor(left / FAIR_WAIT_MS + 0.5), 0)
end

-- The place at `at` has got a time that is `ms` later. Moves the times of the Java clients
-- behind it, up to the next place, and removes places among them that are over.
local function move_behind(lock, at, ms, now, spared)
  local queue, times = queue_of(lock), times_of(lock)
  for _, waiter in ipairs(call('lrange', queue, at + 1, at + NEAR_MAX)) do
    local kept = kept_until(lock, waiter)
    if not kept then
      call('zadd', times, 'xx', 'incr', integer(ms), waiter)
    elseif kept > now - spared then
      return
    else
      call('lrem', queue, 1, waiter)
      call('zrem', times, waiter)
      call('zrem', places_of(lock), lease_of(waiter))
    end
  end
end

-- Keeps the place at `at` for PLACE_MS more, and sets its time right.
local function keep(lock, lease_id, at, now, remaining, spared)
  local place, times, places = lease_id .. ':0', times_of(lock), places_of(lock)
  local is_alone = is_ours(lock, call('llen', queue_of(lock)), now)
  local due, old = now + PLACE_MS + JAVA_MORE_MS, call('zscore', times, place)
  if not is_alone then
    local kept = call('zscore', places, lease_id)
    local known = old and kept and old - kept - JAVA_MORE_MS
    forget_ends(lock, now, spared)
    due = due + waits_before(lock, at, known, now, remaining)
  end
  if call('zadd', times, integer(due), place) == 1 then call('pexpire', times, DAY_MS) end
  call('zadd', places, integer(now + PLACE_MS), lease_id)
  if old and not is_alone then move_behind(lock, at, due - old, now, spared) end
  extend_keys(lock)
end

-- Keeps the place of a request that is gone. Places whose requests may be on their way back to
-- a Redis that was away are not touched.
local function stay(lock, lease_id)
  local at = call('lpos', queue_of(lock), lease_id .. ':0')
  if not at then return end
  keep(lock, lease_id, at, lib.number.epoch_ms(), call('pttl', lock), PLACE_MS)
end

-- Adds a waiter to the queue, or keeps its place for PLACE_MS more. The list decides which
-- waiters there are, for an operator may have deleted the zset.
local function join(lock, lease_id, now, remaining, spared)
  local at = call('lpos', queue_of(lock), lease_id .. ':0')
  if at then return keep(lock, lease_id, at, now, remaining, spared) end
  local others, waits = call('llen', queue_of(lock)), 0
  if not is_ours(lock, others, now) then
    forget_ends(lock, now, spared)
    waits = waits_before(lock, others, nil, now, remaining)
  end
  take(lock, lease_id, now, others, waits)
end

-- Removes a waiter from the queue. True: the waiter was the head. The first write is a command
-- that Redis allows when memory is short.
local function leave(lock, lease_id)
  call('zrem', places_of(lock), lease_id)
  if not length(lock) then return false end
  local place = lease_id .. ':0'
  local at = call('lpos', queue_of(lock), place)
  call('zrem', times_of(lock), place)
  if not at then return false end
  call('lrem', queue_of(lock), 1, place)
  return at == 0
end

return {
  PLACE_MS = PLACE_MS, places_of = places_of, length = length, take = take, is_ours = is_ours,
  give_up_head = give_up_head, head_of = head_of, is_empty = is_empty,
  place_left = place_left, call_waiter = call_waiter, call_head = call_head,
  publish_end = publish_end, stay = stay, join = join, leave = leave
}
