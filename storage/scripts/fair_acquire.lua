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
local times = lib.keys.companion('redisson_lock_timeout', lock)

-- The common case: a free lock without a queue, and no owner. The record ends in its kind;
-- before it are the line of the token and that of the watchdog.
local head, tail = string.match(record_text, '^(.*\n)(\n1?\nfair\n)$')
local is_usual = head and registered ~= '1' and mode ~= 'made'
local keys_there = is_usual and call('exists', lock, queue, times)
if keys_there == 0 then
  local token, err = lib.token.make(counter, fencing_ttl_ms)
  if not token then return err end
  if call('set', record, head .. token .. tail, 'nx', 'px', keep_ms) then
    call('hset', lock, lease_id .. ':0', '1')
    call('pexpire', lock, ttl_ms)
    return token
  end
end

-- The next common case: another lease of this sort holds the lock, and this one waits. A lock
-- that is free has no holder.
local function wait_behind()
  local fields = try('hrandfield', lock, 2, 'withvalues')
  local first, brief, fair_place = lib.first, lib.brief, lib.fair_place
  local wait, window = tonumber(wait_ms), keep_ms - ttl_ms
  local text = #fields == 2 and brief.record_of_holder(fields[1], record, lease_id, '\nfair\n')
  if not text then return nil end
  local now, left, length = lib.number.epoch_ms(), call('pttl', lock), 0
  if keys_there > 1 then
    lib.fair_queue.set_lost_ms(lost_ms)
    length = lib.fair_queue.length_behind(lock, lease_id, now, left)
    if not length then return nil end
  end
  if not first.register(record, record_text, wait + fair_place.PLACE_MS + window,
    lib.keys.sibling(lock, 'waiters'), lease_id, now, wait, window) then
    return nil
  end
  fair_place.take(lock, lease_id, now, left, length, keys_there == 1)
  return {'busy', left, fields[1], tonumber(fields[2]), text}
end

local reply = is_usual and (tonumber(wait_ms) or 0) > 0 and wait_behind()
if reply then return reply end

local requests, queues = lib.request, lib.fair_queue
local request = requests.read(lease_id, ttl_ms, record_text, keep_ms, fencing_ttl_ms, wait_ms,
  mode, registered)
local place, old = lease_id .. ':0', request.old
local now
queues.set_lost_ms(lost_ms)

-- `is_head`: the lease has a place, also where nothing else is left of its requests.
local function grant(is_head)
  local token, err = lib.token.make(counter, fencing_ttl_ms)
  if not token then return requests.refuse(request, err) end
  if is_head or old or request.is_registered then queues.leave(lock, lease_id) end
  requests.attach(request, {token})
  call('hset', lock, lib.record.holder_of(request), '1')
  call('pexpire', lock, ttl_ms)
  lib.owner.write(request, lock, ttl_ms)
  local reply = requests.granted(request, 1)
  if now then queues.publish_end(lock, tonumber(ttl_ms)) end -- else there was no queue
  return reply
end

-- The place stays for the next request with the token.
local function keep_place(remaining)
  local keep = math.max(lib.fair_place.PLACE_MS + request.window, call('pttl', record))
  call('pexpire', record, lib.number.integer(keep))
  queues.join(lock, lease_id, now, remaining)
end

-- Waits, or keeps the place that the lease has, where the request has a token to ask again. A
-- reply, where it must not; or nil.
local function wait_or_keep_place(remaining)
  local is_waiting = tonumber(request.wait) > 0
  if not is_waiting and (not old or request.wait == '-1') then return nil end
  if queues.length(lock) >= lib.first.WAITERS_MAX and not queues.position(lock, lease_id) then
    return requests.refuse(request, {'too-many'})
  end
  -- A lease keeps its place also when memory is short: the first write is one that is allowed.
  if old then call('hdel', lock, '') end
  if not is_waiting then return keep_place(remaining) end
  local reply = requests.register_waiter(request)
  if not reply then queues.join(lock, lease_id, now, remaining) end
  return reply
end

reply = requests.answer(request) or requests.refusal(request)
if reply then return reply end

if not old and call('exists', lock, queue, times) == 0 then
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
  return wait_or_keep_place(0) or lib.holder.busy(ms, head, 0, '')
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
queues.tidy(lock, now, remaining)
return wait_or_keep_place(remaining) or lib.holder.busy(remaining, field, holds, text)
