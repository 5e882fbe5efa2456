-- Acquires a fair lock for one lease, or confirms that this very lease holds it, or puts the
-- lease in the queue. First come, first served; a place in the queue lasts longer than its
-- request.
--
-- KEYS lock counter queue record
-- ARGV lease_id ttl_ms record_text keep_ms fencing_ttl_ms [wait_ms] [mode] [registered] [lost_ms]
-- sync yes
--
--   KEYS, ARGV, replies  those of acquire.lua; queue: see lib/fair_queue.lua. Busy is also a
--                        lock that is free and whose turn is another waiter's: its place is
--                        the holder field, with 0 holds
--   lost_ms              ms since the front end lost Redis, if it can use Redis again for less
--                        than 15000: a place that was good then is not over yet
-- modules fair
-- The common case: a free lock without a queue, and no owner. The record ends in its kind;
-- before it are the line of the token and that of the watchdog.
local head, tail = string.match(record_text, '^(.*\n)(\n1?\nfair\n)$')
if head and registered ~= '1' and mode ~= 'made' and
  call('exists', lock, queue, lib.keys.companion('redisson_lock_timeout', lock)) == 0 then
  local token, err = lib.token.make(counter, fencing_ttl_ms)
  if not token then return err end
  if call('set', record, head .. token .. tail, 'nx', 'px', keep_ms) then
    call('hset', lock, lease_id .. ':0', '1')
    call('pexpire', lock, ttl_ms)
    return token
  end
end

local requests, queues = lib.request, lib.fair_queue
local request = requests.read(lease_id, ttl_ms, record_text, keep_ms, fencing_ttl_ms, wait_ms,
  mode, registered)
local place, old = lease_id .. ':0', request.old
local now
queues.spare_places(lost_ms)

-- `is_head`: the lease has a place, also where nothing else is left of its requests.
local function grant(is_head)
  local token, err = lib.token.make(counter, fencing_ttl_ms)
  if not token then return requests.refuse(request, err) end
  if is_head or old or request.is_registered then queues.leave(lock, lease_id) end
  requests.attach(request, {token})
  call('hset', lock, lib.record.holder_of(request), '1')
  call('pexpire', lock, ttl_ms)
  lib.owner.mark(request, lock, ttl_ms)
  local reply = requests.granted(request, 1)
  if now then queues.tell_end(lock, now, tonumber(ttl_ms)) end -- else there was no queue
  return reply
end

-- The request ends, and its place stays for the next request with the token.
local function leave_place(remaining)
  if request.is_registered then
    lib.waiting.withdraw(old, request.attempt, request.window)
  end
  local keep = math.max(queues.PLACE_MS + request.window, call('pttl', record))
  call('pexpire', record, lib.number.integer(keep))
  queues.join(lock, lease_id, now, remaining)
end

-- Waits, or keeps the place that the lease has, where the request has a token to ask again. A
-- reply, where it must not; or nil.
local function stay(remaining)
  local is_waiting = tonumber(request.wait) > 0
  if not is_waiting and (not old or request.wait == '-1') then return nil end
  if queues.length(lock) >= lib.first.WAITERS_MAX and not queues.position(lock, lease_id) then
    return requests.refuse(request, {'too-many'})
  end
  -- A lease keeps its place also when memory is short: the first write is one that is allowed.
  if old then call('hdel', lock, '') end
  if not is_waiting then return leave_place(remaining) end
  local reply = requests.wait_in_line(request)
  if not reply then queues.join(lock, lease_id, now, remaining) end
  return reply
end

local reply = requests.answer(request) or requests.objection(request)
if reply then return reply end

if not old and call('exists', lock, queue, queues.times_of(lock)) == 0 then
  return grant(false)
end
if not queues.is_sound(lock) then return requests.refuse(request, {'wrong-kind'}) end

now = lib.number.epoch_ms()
local remaining = call('pttl', lock)
if remaining == -2 then
  local head, is_new = queues.head_of(lock, now, true)
  if not head or head == place then return grant(head == place) end
  -- The head has been called, or is dead: no other waiter gets in before its time is over.
  if is_new then queues.call_waiter(lock, head, now) end
  -- How often to look again: the head may be dead.
  local ms = math.max(queues.place_left(lock, head, now), 100)
  return stay(0) or lib.holder.busy(ms, head, 0, '')
end

local field, holds, kind, text = lib.holder.only(lock)
if not field then return requests.refuse(request, holds) end
if (kind or request.kind) ~= request.kind then
  return requests.refuse(request, {'wrong-kind'})
end
if field == lib.record.holder_of(request) then
  if old or request.is_registered then queues.leave(lock, lease_id) end
  return requests.reenter(request, lock, counter, remaining)
end
local _, is_new = queues.head_of(lock, now)
if is_new then queues.tell_end(lock, now, remaining) end
return stay(remaining) or lib.holder.busy(remaining, field, holds, text)
