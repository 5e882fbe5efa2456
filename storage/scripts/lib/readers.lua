-- Read/write locks, in the layout of Redisson's RReadWriteLock.
--
-- The lock's hash: `mode` (read, write), reader -> reads, writer (`:write` at its end) ->
-- writes. Each read is a string whose TTL is that of the read, numbered from 1 to the reader's
-- count. Redisson's reads have the value 1; reads of rlockd have the ref of their lease
-- (lib/record.lua), which tells the reads of one owner apart.
local keys, is_ours = lib.keys, lib.field.is_ours

-- The longest sleep of a waiter of rlockd before its next attempt.
local POLL_MS = 6000

-- The largest number of keys in one MGET.
local MGET_MAX = 1000

-- The largest numbers of readers and reads that one call of a script looks at. If these are not
-- enough for a decision, the call leaves the lock as it is, and the next call looks at other
-- readers.
local READERS_MAX, READS_MAX = 100, 1000

-- Ms by which a lock may outlast its longest read: Redis may stand still between the two
-- commands that set their times.
local DRIFT_MS = 100

-- The number of reads that this call has looked at.
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

-- Publishes that all readers may have the lock, or a writer: `message` is Redisson's, "1" after
-- a writer. Redisson wakes sleeping waiters at a 1; a client that is about to sleep finds a 0.
local function publish_free(lock, message)
  publish(lock, message)
  if message == '1' then wake(lock) end
end

-- Ms that the longest read of a reader has left, or the first read that has at least `enough`
-- ms left; 0: all its reads have ended. When this call may look at no further read, the result
-- is the lock's TTL.
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

-- The number of reads of a reader of rlockd by the lock's hash, but no more than a call looks
-- at: an owner has far fewer, and any client of Redis may write the number.
local function count_of(lock, holder)
  return math.min(tonumber(call('hget', lock, holder)) or 0, READS_MAX)
end

-- Removes the ended reads of a reader of rlockd from its count, and renumbers its other reads
-- from 1 to the count. Returns the count. Writes only if a read has ended, because a first
-- write would let later writes pass when memory is short.
local function drop_ended(lock, holder)
  local count, alive = count_of(lock, holder), 0
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
    call('hset', lock, holder, alive)
  end
  return alive
end

-- The fencing token that the reads of an owner share; nil: not known.
local function token_of(lock, holder)
  for number = 1, math.min(count_of(lock, holder), READERS_MAX) do
    local ref = call('get', key_of(lock, holder, number))
    local lease = ref and lib.record.find(lock, ref)
    local token = lease and lease.tokens[1] or ''
    if token ~= '' then return token end
  end
  return nil
end

-- Removes a reader of rlockd without a living read from the lock. A Java client without keys of
-- its reads may still live, because some versions of Redisson renew only the hash.
local function drop_if_dead(lock, field, left)
  if left == 0 and is_ours(field) then call('hdel', lock, field) end
end

-- Reads some holder fields and the mode of a lock, by HRANDFIELD. Returns the fields and their
-- values, and whether these are all fields of the lock.
local function fields_of(lock)
  local fields = call('hrandfield', lock, READERS_MAX + 1, 'withvalues')
  return fields, #fields / 2 <= READERS_MAX
end

-- Ms that the longest read of the lock has left, whether a writer holds the lock, and whether
-- all readers were looked at: the reads of further readers may last as long as the lock.
-- Removes expired readers of rlockd from the lock.
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

-- Redisson sets the TTL of the lock when it renews a read, whether another read lasts longer or
-- not. So whoever finds a reader of rlockd with `left` ms lets the lock last as long. (Reads of
-- a RedissonMultiLock last longer than its lease.) The write is one that Redis allows when
-- memory is short.
local function uphold(lock, field, left)
  if not is_ours(field) then return end
  local lasts = call('pttl', lock)
  if lasts >= 0 and left > lasts + DRIFT_MS then call('pexpire', lock, left) end
end

-- Whether one of some readers has at least `least` ms left; true for a writer. Looks at some
-- readers only, so that the cost does not grow with their number.
local function is_upheld(lock, least)
  for _, one in ipairs(some_holders(lock, 'read') or {}) do
    local field, count = one[1], one[2]
    if is_writer(field) then return true end
    local left = reads_left(lock, field, count, least)
    if left >= least then
      uphold(lock, field, left)
      return true
    end
  end
  return false
end

-- Called after the end of a hold, a read with `own` ms left: the lock now lasts as long as its
-- longest read, or up to DRIFT_MS longer, and without a read it is free. While a writer holds
-- the lock it stays as it is.
-- `message`: Redisson's message for the waiters.
local function hold_ended(lock, message, own)
  local before = call('pttl', lock)
  if message == '0' and before >= 0 then
    local enough = before - DRIFT_MS
    if is_upheld(lock, own < enough and 1 or math.max(enough, 1)) then return end
  end
  local most, has_writer, is_all = longest(lock)
  if has_writer or not is_all then return end
  if most == 0 then
    call('del', lock)
    publish_free(lock, message)
    return
  end
  call('pexpire', lock, most)
  if message == '1' then -- the writer goes on as a reader: other readers may join it
    call('hset', lock, 'mode', 'read')
    publish(lock, message)
  elseif most < before / 2 and most <= before - POLL_MS then
    -- Redisson's waiters sleep for as long as the lock was to last. Those of rlockd do not, so
    -- reads that are about as long as each other come and go without a message.
    publish_free(lock, '1')
  elseif most < POLL_MS and most < before and keys.has_waiters(lock) then
    publish(lock, message) -- the waiters' next poll may come later
  end
end

return {
  READERS_MAX = READERS_MAX, key_of = key_of, is_writer = is_writer, is_mode = is_mode,
  publish_free = publish_free, wake = wake, reads_left = reads_left, get_many = get_many,
  count_of = count_of, drop_ended = drop_ended, token_of = token_of,
  drop_if_dead = drop_if_dead, fields_of = fields_of, longest = longest,
  some_holders = some_holders, uphold = uphold, hold_ended = hold_ended, DRIFT_MS = DRIFT_MS
}
