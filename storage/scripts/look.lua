-- Looks at a lock: its holders, for how long, its waiters. If `lease_id` names a lease that
-- holds, the reply says so, and the lease's attempt must not be withdrawn any more.
--
-- KEYS lock counter waiters
-- ARGV waiters_max holders_max lease_id asked_token
-- REPLY [] remaining_ms fencing_token kind holder_count holders waiter_count waiters lease_state lease_reason is_current
-- REPLY [holder] field holds note session_id session_name owner watchdog kind fencing_token remaining_ms
-- REPLY [waiter] lease_id remaining_ms waited_ms note field
-- sync no
--
--   waiters_max, holders_max  how many to name
--   lease_id                  the lease that asks, or ""
--   asked_token               the fencing token that is asked for, or ""
--
-- Replies  wrong-kind, and this:
--   remaining_ms  -2: the lock is free
--   fencing_token  none is 0 for the lock, "" for a holder
--   kind          as far as the data tells, or ""
--   watchdog      "1": keeps the holder's lease
--   lease_id      of a waiter, or ""           waited_ms      -1: not known
--   field         of a waiter: its holder field in a queue, or ""
--   lease_state   of the asking lease: "" unknown, waiting, held, ended
--   lease_reason  why the asking lease ended
--   is_current    1: the token is that of a grant that holds; 0: it is not; -1: it is not that
--                 of the readers that are named, but may be that of another reader
-- modules lock fair read write
local record, readers, field_of, keys = lib.record, lib.readers, lib.field, lib.keys

local mode = try('hget', lock, 'mode')
if type(mode) == 'table' then return mode end
local remaining = call('pttl', lock)
local last_token = call('get', counter) or '0'
local now = lib.number.epoch_ms()
local queue = keys.queue_of(lock)
local places = keys.sibling(lock, 'places')
-- Places that no request asks for stay in the queue until they come to its head.
local in_queue = call('exists', queue) == 1 and
  math.max(call('llen', queue) - call('zcount', places, '-inf', now), 0) or 0

-- A hash that is no lock may have any number of fields.
local fields = call('hrandfield', lock, mode and holders_max + 1 or 2, 'withvalues')
if mode and not readers.some_holders(lock, mode) then return {'wrong-kind'} end

-- A holder of rlockd has a record, or is an owner of a session.
local function describe(field, count, left)
  local is_writer = readers.is_writer(field)
  local own_mode = mode and (is_writer and 'write' or 'read')
  local kind, text, lease = lib.holder.describe(lock, field, own_mode)
  local is_ours = field_of.is_ours(field)
  local note, session, name, owner, watchdog, token = '', '', '', '', '', ''
  if lease then
    session, name, token = lease.session, lease.session_name, lease.tokens[1]
  elseif text ~= '' then
    name = string.match(text, '([^\n]*)$')
  end
  if lease and lease.owner == '' then
    note, watchdog = lease.note, lease.watchdog
  elseif is_ours and (text ~= '' or not field_of.ref_of(field)) then
    session, owner = field_of.owner_of(field)
  end
  -- A Java client's write has no token; that of its plain lock is not known for sure.
  if token == '' and own_mode ~= 'read' and (not is_writer or is_ours) then
    token = last_token
  end
  return {field, count, note, session, name, owner, watchdog, own_mode or kind or 'lock', token,
    left}
end

local max_named = tonumber(holders_max)
local kind, holders, holder_count, is_current = '', {}, 0, false
local function add_holder(field, count, left)
  holder_count = holder_count + 1
  if holder_count > max_named then return end
  local values = describe(field, count, left)
  kind = mode or values[8]
  is_current = is_current or (asked_token ~= '' and values[9] == asked_token)
  for _, value in ipairs(values) do holders[#holders + 1] = value end
end

-- Adds the living holders among these fields. Returns the number of dead readers, which stay in
-- the hash until a request notices; nil: the hash is no lock.
local function add_living(drawn)
  local dead, keyless = 0, nil -- see drop_if_dead() in lib/readers.lua
  for i = 1, #drawn, 2 do
    local field, count = drawn[i], tonumber(drawn[i + 1]) or 0
    if field ~= 'mode' then
      if not field_of.is_holder(field) then return nil end
      local is_read = mode and not readers.is_writer(field)
      local left = is_read and readers.reads_left(lock, field, count) or remaining
      if left ~= 0 then
        add_holder(field, count, left)
      else
        dead = dead + 1
        if not field_of.is_ours(field) then keyless = {field, count} end
      end
    end
  end
  if keyless and holder_count == 0 then add_holder(keyless[1], keyless[2], remaining) end
  return dead
end

local dead = add_living(fields)
if not dead or not mode and holder_count > 1 then return {'wrong-kind'} end
local is_all = not mode or #fields / 2 <= max_named
if not is_all and dead > 0 and max_named < readers.READERS_MAX then
  -- The living may be among the readers that were not drawn.
  holders, holder_count, is_current = {}, 0, false
  fields, is_all = readers.fields_of(lock)
  if not add_living(fields) then return {'wrong-kind'} end
end
if not is_all then kind, holder_count = mode, call('hlen', lock) - 1 end
if holder_count == 0 then
  remaining = -2
  if mode then kind = '' end
end
if kind == '' and in_queue > 0 then kind = 'fair' end

local waiting = {}
local function add_waiter(ref, deadline, place)
  local lease, id = ref ~= '' and record.find(lock, ref), string.gsub(ref, ':m$', '')
  local left = deadline and math.max(deadline - now, 0) or 0
  local waited = lease and lease.since ~= '' and now - lease.since or -1
  for _, value in ipairs({id, left, waited, lease and lease.note or '', place}) do
    waiting[#waiting + 1] = value
  end
end

local waiter_count
if in_queue > 0 then
  waiter_count = in_queue
  -- With no waiter to name the last index would be -1: all of the queue.
  local queued = waiters_max ~= '0' and call('lrange', queue, 0, waiters_max - 1) or {}
  for _, place in ipairs(queued) do
    local id = field_of.is_ours(place) and string.match(place, '^([^:]*):0$')
    local kept = id and call('zscore', places, id)
    if not kept or tonumber(kept) > now then
      add_waiter(id or '', id and call('zscore', waiters, id), place)
    end
  end
else
  waiter_count = call('zcount', waiters, now, '+inf')
  local found =
    call('zrangebyscore', waiters, now, '+inf', 'withscores', 'limit', 0, waiters_max)
  for i = 1, #found, 2 do add_waiter(found[i], found[i + 1], '') end
end

local function lease_state()
  if lease_id == '' then return '', '' end
  local lease = record.known(record.find(lock, lease_id))
  if not lease then
    return call('hexists', lock, lease_id .. ':0') == 1 and 'held' or '', ''
  end
  if record.mismatch(lease, false) then return '', '' end
  if lease.state ~= 'held' then return lease.state, lease.detail end
  if not lib.lease.holds_of(lease) then return 'ended', lib.lease.loss_reason(lease) end
  lib.lease.claim(lease)
  return 'held', ''
end

local state, reason = lease_state()
return {
  remaining, last_token, kind, holder_count, holders, waiter_count, waiting, state, reason,
  is_current and 1 or (mode == 'read' and asked_token ~= '' and -1 or 0)
}
