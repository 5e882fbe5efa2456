-- Acquires a fair lock for one lease, or confirms that this very lease holds it, or puts the
-- lease in the queue. First come, first served; a place in the queue lasts longer than its
-- request.
--
-- KEYS as acquire.lua
-- ARGV as acquire.lua [lost_ms]
-- sync yes
-- grants yes
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
local is_usual = head and registered ~= '1' and mode ~= 'returned'
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

-- The next common case: another lease of this sort holds the lock. A request that does not wait
-- is refused at once where there is no queue, in which it may have a place.
local wait, fields, text = tonumber(wait_ms) or 0, nil, nil
if is_usual and (wait > 0 or (keys_there == 1 and call('exists', record) == 0)) then
  fields = try('hrandfield', lock, 2, 'withvalues') -- none: the lock is free
  text = #fields == 2 and
    lib.brief.record_of_holder(fields[1], record, lease_id, '\nfair\n')
end
if text and wait <= 0 then
  return {'busy', call('pttl', lock), fields[1], tonumber(fields[2]), text, ''}
end

local queues = lib.fair_queue

-- A lease without a place waits behind others of rlockd. Expired places are left for the
-- attempts that come later.
local function wait_behind()
  local window, now, left = keep_ms - ttl_ms, lib.number.epoch_ms(), call('pttl', lock)
  local others, places = keys_there == 1 and 0 or queues.length(lock), queues.places_of(lock)
  if not others or others >= lib.first.WAITERS_MAX or
    (others > 0 and (call('zcard', places) ~= others or call('zscore', places, lease_id))) or
    not lib.first.register(record, record_text, wait + queues.PLACE_MS + window,
      lib.keys.sibling(lock, 'waiters'), lease_id, now, wait, window) then
    return nil
  end
  queues.take(lock, lease_id, now, left, others)
  return {'busy', left, fields[1], tonumber(fields[2]), text, ''}
end

local reply = text and wait_behind()
if reply then return reply end

local requests = lib.request
local request = requests.read(lease_id, ttl_ms, record_text, keep_ms, wait_ms, mode,
  registered)
local old, now, remaining = request.old, lib.number.epoch_ms(), call('pttl', lock)

-- `is_head`: the lease has a place, also where nothing else is left of its requests.
local function leave_queue(is_head)
  if is_head or old or request.is_registered then queues.leave(lock, lease_id) end
end

local function grant(is_head)
  local token, err = lib.token.make(counter, fencing_ttl_ms)
  if not token then return requests.refuse(request, err) end
  leave_queue(is_head)
  if is_head then queues.publish_end(lock, tonumber(ttl_ms)) end
  return requests.take(request, lock, token, remaining)
end

-- Waits, or keeps the place that the lease has, where the request has a token to ask again. A
-- lease keeps its place also when memory is short: the first write is one that is allowed.
local function busy(ms, field, holds, text)
  local is_waiting = tonumber(request.wait) > 0
  if is_waiting and not old and queues.length(lock) >= lib.first.WAITERS_MAX then
    return requests.refuse(request, {'too-many'})
  end
  if is_waiting or (old and request.wait ~= '-1') then
    if old then call('hdel', lock, '') end
    if is_waiting then
      requests.register(request, now)
    else
      call('pexpire', record, math.max(queues.PLACE_MS + request.window, call('pttl', record)))
    end
    queues.join(lock, lease_id, now, remaining)
  end
  if holds == 0 then return lib.holder.reply(ms, field, holds, text, '') end
  return lib.holder.busy(ms, lock, field, holds, text)
end

reply = requests.answer(request) or requests.refusal(request)
if reply then return reply end
if not queues.length(lock) then return requests.refuse(request, {'wrong-kind'}) end

local spared = tonumber(lost_ms) or 0
if remaining == -2 then
  local head, is_new = queues.head_of(lock, now, true, spared)
  if not head or head == lease_id .. ':0' then return grant(head) end
  -- The head has been called, or is dead: no other waiter gets in before its time is over.
  if is_new then queues.call_waiter(lock, head, now) end
  -- How often to look again: the head may be dead.
  return busy(math.max(queues.place_left(lock, head, now), 100), head, 0, '')
end

local field, holds, kind, text = lib.holder.only(lock)
if not field then return requests.refuse(request, holds) end
if kind and kind ~= 'fair' then return requests.refuse(request, {'wrong-kind'}) end
if field == lib.record.holder_of(request) then
  leave_queue()
  return requests.reenter(request, lock, counter, remaining)
end
local _, is_new = queues.head_of(lock, now, false, spared)
if is_new then queues.publish_end(lock, remaining) end
return busy(remaining, field, holds, text)
