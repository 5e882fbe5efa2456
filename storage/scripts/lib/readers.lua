-- Read/write locks, in the layout of Redisson's RReadWriteLock.
--
-- The lock's hash: `mode` (read, write), reader -> reads, writer (`:write` at its end) ->
-- writes. Each read is a string whose TTL is that of the read, numbered from 1 to the reader's
-- count. Redisson's reads hold a 1; reads of ours hold the ref of their lease (lib/record.lua),
-- so that each is told from the other reads of its owner.
local keys, is_ours = lib.keys, lib.field.is_ours

-- For how long a waiter sleeps at most before it looks again.
local POLL_MS = 6000

-- So many keys at most in one MGET.
local MGET_MAX = 1000

-- What one call of a script looks at, of however many readers: a call keeps the lock as it is
-- where that is not enough, and the next call looks at other readers.
local READERS_MAX, READS_MAX = 100, 1000

-- Reads that this call has looked at.
local looked = 0

local function key_of(lock, holder, number)
  return keys.suffixed(lock, holder .. ':rwlock_timeout:' .. number)
end

local function is_writer(field) return string.sub(field, -6) == ':write' end

local function is_mode(mode) return mode == 'read' or mode == 'write' end

local function publish(lock, message)
  call('publish', keys.companion('redisson_rwlock', lock), message)
end

local function wake(lock) publish(lock, '0') end

-- Ms that the longest read of a reader has left, or the first that is found with `enough` of
-- them; 0: all its reads have ended. Where no more may be looked at the reads may last as long
-- as the lock.
local function reads_left(lock, holder, count, enough)
  local most = 0
  for number = 1, count do
    if looked == READS_MAX then return math.max(most, call('pttl', lock), 1) end
    looked = looked + 1
    most = math.max(most, call('pttl', key_of(lock, holder, number)))
    if enough and most >= enough then return most end
  end
  return most
end

local function get_many(names)
  local values = {}
  for first = 1, #names, MGET_MAX do
    local last = math.min(first + MGET_MAX - 1, #names)
    for _, value in ipairs(call('mget', unpack(names, first, last))) do
      values[#values + 1] = value
    end
  end
  return values
end

-- Takes the reads of a reader of ours that have ended off its count; the others move up, since
-- numbers go from 1 to the count. Returns the count. Writes only where a read has ended: a
-- first write would let later writes pass when memory is short. A reader has no more reads than
-- its session may have leases.
local function drop_ended(lock, holder)
  local count = tonumber(call('hget', lock, holder)) or 0
  local alive = 0
  for number = 1, count do
    local key = key_of(lock, holder, number)
    if call('exists', key) == 1 then
      alive = alive + 1
      if alive < number then call('rename', key, key_of(lock, holder, alive)) end
    end
  end
  if alive == 0 and count > 0 then
    call('hdel', lock, holder)
  elseif alive < count then
    call('hincrby', lock, holder, alive - count)
  end
  return alive
end

-- The fencing token that the reads of an owner share; nil: not known.
local function token_of(lock, holder)
  for number = 1, math.min(tonumber(call('hget', lock, holder)) or 0, READERS_MAX) do
    local ref = call('get', key_of(lock, holder, number))
    local lease = ref and lib.record.find(lock, ref)
    local token = lease and lease.tokens[1] or ''
    if token ~= '' then return token end
  end
  return nil
end

-- A reader of ours without a living read leaves the lock. A Java client that lives may have
-- lost the keys of its reads: some versions renew only the hash.
local function drop_if_dead(lock, field, left)
  if left == 0 and is_ours(field) then call('hdel', lock, field) end
end

-- Some holders and the mode, as HRANDFIELD tells them, and whether these are all.
local function fields_of(lock)
  local fields = call('hrandfield', lock, READERS_MAX + 1, 'withvalues')
  return fields, #fields / 2 <= READERS_MAX
end

-- Ms that the longest read of the lock has left, whether a writer holds the lock, and whether
-- all readers were looked at: more of them may last as long as the lock. Dead readers of ours
-- leave the lock.
local function longest(lock)
  local most, has_writer = 0, false
  local fields, is_all = fields_of(lock)
  for i = 1, #fields, 2 do
    local field = fields[i]
    if is_writer(field) then
      has_writer = true
    elseif field ~= 'mode' then
      local left = reads_left(lock, field, tonumber(fields[i + 1]) or 0)
      drop_if_dead(lock, field, left)
      most = math.max(most, left)
    end
  end
  if not is_all then most = math.max(most, call('pttl', lock)) end
  return most, has_writer, is_all
end

-- Some holders, a list of {field, count}: all fields of a writer, a few of many readers. Nil:
-- the key is no read/write lock.
local function some_holders(lock, mode)
  if not is_mode(mode) then return nil end
  local fields, some = call('hrandfield', lock, 4, 'withvalues'), {}
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      local count = tonumber(fields[i + 1])
      if not count or not lib.field.is_holder(fields[i]) then return nil end
      some[#some + 1] = {fields[i], count}
    end
  end
  return #some > 0 and some or nil
end

-- Whether one of some readers has `least` ms left: not to look at all readers is what makes
-- many readers cheap. A writer always has.
local function is_upheld(lock, least)
  for _, one in ipairs(some_holders(lock, 'read') or {}) do
    local field, count = one[1], one[2]
    if is_writer(field) or reads_left(lock, field, count, least) >= least then return true end
  end
  return false
end

-- A hold has gone, a read with `own` ms left: the lock lasts as long as its longest read, and
-- without any read it is free. Where a writer is left the lock stays as it is. `message`:
-- Redisson's for the waiters.
local function settle(lock, message, own)
  local before = call('pttl', lock)
  if message == '0' and before >= 0 then
    if is_upheld(lock, own < before - 1 and 1 or before - 1) then return end
  end
  local most, has_writer, is_all = longest(lock)
  if has_writer or not is_all then return end
  if most == 0 then
    call('del', lock)
    publish(lock, message)
    -- Redisson wakes parked waiters at a 1; a client that is about to park finds a 0.
    if message == '1' then wake(lock) end
    return
  end
  call('pexpire', lock, most)
  if message == '1' then -- the writer goes on as a reader: other readers may join it
    call('hset', lock, 'mode', 'read')
    publish(lock, message)
  elseif most < POLL_MS and most < before and
    call('zcard', keys.sibling(lock, 'waiters')) > 0 then
    publish(lock, message) -- waiters sleep for as long as the lock was to last
  end
end

return {
  key_of = key_of, is_writer = is_writer, is_mode = is_mode, publish = publish, wake = wake,
  reads_left = reads_left, get_many = get_many, drop_ended = drop_ended, token_of = token_of,
  drop_if_dead = drop_if_dead, fields_of = fields_of, longest = longest,
  some_holders = some_holders, settle = settle
}
