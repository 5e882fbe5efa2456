-- One request for a lease: the reply that the lease's record decides, the grant, the wait.
--
-- A request is a table with the fields of the lease that it asks for (lib/record.lua) and
--   window, keep   ms: the retry window, and ttl and retry window
--   wait           ms for which to be registered as a waiter when the lock is busy; "0": not;
--                  "-1": not, and no client has the token to ask again
--   mode           "fresh": the server made the token for this request: no record exists
--                  or is made; "recorded": the lease has a record; "returned": a token that the
--                  server made came back: its lease holds, or it is spent
--   is_registered  the request is a waiter already, and leaves when it gets the lock
--   old            the lease with this token, as its records tell; nil: no record
--
-- ARGV of the scripts that acquire: record_text of a lease in state "held", with the attempt and
-- without a fencing token; keep_ms: ttl and retry window; fencing_ttl_ms: at least keep_ms, or
-- 0; wait_ms, mode, registered: as above. KEYS of those that acquire locks, for each lock: its
-- name, its counter, the queue of a fair lock of that name, the lease's record.
local record, leases, keys = lib.record, lib.lease, lib.keys

local WAITERS_MAX = lib.first.WAITERS_MAX

local function read(lease_id, ttl, text, keep, wait, mode, registered)
  local request = record.with_keys(record.parse(text), lease_id)
  request.keep, request.window = keep, keep - ttl
  request.wait = wait ~= '' and wait or '0'
  request.mode = mode ~= '' and mode or 'recorded'
  request.is_registered = registered == '1'
  request.old = record.stored(lease_id)
  return request
end

-- The reply of a request that is refused, and waits no more; when memory is short, it waits on.
local function refuse(request, reply)
  local cause = type(reply) == 'table' and reply.err or ''
  if request.is_registered and not string.find(cause, 'OOM', 1, true) then
    leases.unregister(request)
  end
  return reply
end

-- The reply of a request that the record refuses, or that has no record though its token was
-- given out before; nil: the record allows a grant. A lease of kind "lock" may hold without a
-- record.
local function refusal(request)
  local old = request.old
  if old then return old.state == 'ended' and leases.ended_reply(old) or nil end
  if request.mode ~= 'returned' then return nil end
  if not request.is_set and try('hexists', request.locks[1], request.id .. ':0') == 1 then
    return {'reused'}
  end
  return {'ended', 'unknown', '', ''}
end

-- The reply that the lease's record alone decides, before the lock is read; nil: the record
-- decides nothing. For a record in state "held" lease_confirm.lua finds out whether the lease
-- still holds the lock.
local function answer(request)
  local old = request.old
  if not old or old.state == 'ended' then return nil end
  if record.is_other(old, request) then return refuse(request, {'reused'}) end
  return old.state == 'held' and {'recorded'} or nil
end

-- Writes the records of a lease that has just been granted.
local function attach(request, tokens)
  request.tokens = tokens
  for i, key in ipairs(request.keys) do
    call('set', key, record.format(request, i), 'px', request.keep)
  end
end

-- The request was granted: removes its waiter entry, and wakes duplicate requests with the same
-- token. Another lease of the same owner may come in now, too, and one message wakes only one
-- waiter: the owner's waiters for this lock are told.
local function stop_waiting(request)
  local old, owner = request.old, request.owner
  if not old and not request.is_registered and owner == '' then return end
  for _, lock in ipairs(request.locks) do
    if old or request.is_registered then
      try('zrem', keys.sibling(lock, 'waiters'), request.ref)
    end
    if owner ~= '' and keys.has_waiters(lock) then
      call('publish', 'rlockd:sessions', request.session .. ':' .. owner .. ' ' .. lock)
    end
  end
  if old and old.state == 'waiting' and
    (old.attempt ~= request.attempt or old.detail ~= '') then
    leases.publish(request)
  end
end

local function granted(request, counts)
  stop_waiting(request)
  return {'granted', table.concat(request.tokens, ' '), request.ttl, '', counts}
end

-- Takes the lock, which is free (`remaining` is negative) or has `remaining` ms left for the
-- same owner. `token`: for the record.
local function take(request, lock, token, remaining)
  attach(request, {token})
  local count = call('hincrby', lock, record.holder_of(request), 1)
  if tonumber(request.ttl) > remaining then
    call('pexpire', lock, request.ttl)
    remaining = tonumber(request.ttl)
  end
  lib.owner.write(request, lock, lib.number.integer(remaining))
  return granted(request, count)
end

-- Takes the lock, which its owner holds already: its leases share the lock and its token.
local function reenter(request, lock, counter, remaining)
  local reply = take(request, lock, call('get', counter) or '0', remaining)
  lib.token.keep(counter, tonumber(request.keep))
  return reply
end

-- The records of a lease that waits, unless they are there already.
local function write_waiting(request, now)
  local old, wait = request.old, request.wait
  local detail, since = '', lib.number.integer(now)
  if old and old.state == 'waiting' then
    if record.waits(old, request.attempt) then return false end
    detail, since = record.others_of(old), old.since
  end
  request.state, request.detail, request.since = 'waiting', detail, since
  -- Of two requests with one token the longer wait decides. A place in a queue may last longer
  -- than the request, and its record has to last as long.
  local least = wait + (lib[request.kind].place_ms or 0) + request.window
  for i, key in ipairs(request.keys) do
    local keep = math.max(least, call('pttl', key))
    call('set', key, record.format(request, i), 'px', lib.number.integer(keep))
  end
  return true
end

-- Whether more clients wait for one of the locks than may: the first such lock's number.
local function crowded(request, now)
  if request.is_registered or request.old then return nil end
  for i, lock in ipairs(request.locks) do
    local waiters = keys.sibling(lock, 'waiters')
    if call('zcard', waiters) >= WAITERS_MAX and
      call('zcount', waiters, lib.number.integer(now), '+inf') >= WAITERS_MAX then
      return i
    end
  end
  return nil
end

-- Registers the lease as a waiter for `wait` ms from now on.
local function register(request, now)
  if not write_waiting(request, now) then return end
  local wait = tonumber(request.wait)
  for _, lock in ipairs(request.locks) do
    local waiters, keep = keys.sibling(lock, 'waiters'), wait + request.window
    call('zremrangebyscore', waiters, '-inf', now)
    call('zadd', waiters, 'gt', now + wait, request.ref)
    if call('pttl', waiters) < keep then call('pexpire', waiters, keep) end
  end
end

-- The same, if the request waits, and there is no queue that limits the waiters. A reply, where
-- the request must not wait; or nil.
local function register_waiter(request)
  if tonumber(request.wait) <= 0 then return nil end
  local now = lib.number.epoch_ms()
  local number = crowded(request, now)
  if number then return {'too-many', request.is_set and number or nil} end
  return register(request, now)
end

return {
  read = read, refuse = refuse, refusal = refusal,
  answer = answer, attach = attach, granted = granted, take = take, reenter = reenter,
  register = register, register_waiter = register_waiter
}
