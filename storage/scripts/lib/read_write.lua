-- What the scripts share about read/write locks, in the layout of Redisson's RReadWriteLock.
--
-- The lock's hash: `mode` (read, write), reader -> reads, writer (`:write` at its end) ->
-- writes. Each read has a string of its own whose TTL is its lease, numbered from 1 to the
-- reader's count. Redisson's hold a 1; ours hold the id of their lease, so that each is told
-- from the others of its owner.

-- How long a waiter sleeps at most before it looks again.
local POLL_MS = 6000

local function read_key(lock, holder, number)
  return suffixed(lock, holder .. ':rwlock_timeout:' .. number)
end

local function rw_channel(lock) return companion('redisson_rwlock', lock) end

local function is_writer(field) return string.sub(field, -6) == ':write' end

-- Ms that the longest of a reader's reads has left, or one that has `enough` of them; 0: they
-- are all over.
local function reads_left(lock, holder, count, enough)
  local longest = 0
  for number = 1, count do
    longest = math.max(longest, redis.call('pttl', read_key(lock, holder, number)))
    if enough and longest >= enough then return longest end
  end
  return longest
end

-- What MGET may be asked for at once.
local MGET_MAX = 1000

local function get_many(keys)
  local values = {}
  for first = 1, #keys, MGET_MAX do
    local last = math.min(first + MGET_MAX - 1, #keys)
    for _, value in ipairs(redis.call('mget', unpack(keys, first, last))) do
      values[#values + 1] = value
    end
  end
  return values
end

-- What this script knows of the reads of a holder: number -> lease id, lease id -> number, how
-- many there are, and how many of them have not ended. One of many leases of an owner is then
-- found without a look at all of them again.
local known_reads = {}

local function reads_of(lock, holder)
  local name = lock .. '\n' .. holder
  local known = known_reads[name]
  if known then return known end
  known = {ids = {}, numbers = {}, alive = 0}
  known.count = tonumber(redis.call('hget', lock, holder)) or 0
  local keys = {}
  for number = 1, known.count do keys[number] = read_key(lock, holder, number) end
  for number, lease_id in ipairs(get_many(keys)) do
    if lease_id then
      known.ids[number], known.numbers[lease_id] = lease_id, number
      known.alive = known.alive + 1
    end
  end
  known_reads[name] = known
  return known
end

-- The number of this lease's read; nil: it is over.
local function find_read(lock, holder, lease_id)
  return reads_of(lock, holder).numbers[lease_id]
end

-- Ms that this lease's read has left; nil: it is over.
local function read_left(lock, holder, lease_id)
  local number = find_read(lock, holder, lease_id)
  return number and redis.call('pttl', read_key(lock, holder, number))
end

-- Reads of this holder that ended by themselves leave the count, and the others move up: the
-- numbers go from 1 to the count. Returns the count. It writes only where there is something to
-- drop: as a first write it would let others pass when memory is short.
local function drop_ended_reads(lock, holder)
  known_reads = {}
  local count = tonumber(redis.call('hget', lock, holder)) or 0
  local alive = 0
  for number = 1, count do
    local key = read_key(lock, holder, number)
    if redis.call('exists', key) == 1 then
      alive = alive + 1
      if alive < number then redis.call('rename', key, read_key(lock, holder, alive)) end
    end
  end
  if alive == 0 and count > 0 then
    redis.call('hdel', lock, holder)
  elseif alive < count then
    redis.call('hincrby', lock, holder, alive - count)
  end
  return alive
end

-- The fencing token that the reads of an owner of ours share; nil: nobody knows.
local function token_of_reads(lock, holder)
  for number = 1, tonumber(redis.call('hget', lock, holder)) or 0 do
    local lease_id = redis.call('get', read_key(lock, holder, number))
    local record = lease_id and find_record(lease_id)
    local token = record and token_for(record, lock) or ''
    if token ~= '' then return token end
  end
  return nil
end

-- A reader of ours who died leaves the lock. A Java client that lives may have lost its reads'
-- keys: some versions do not renew them all, only the hash.
local function drop_if_dead(lock, field, left)
  if left == 0 and is_ours(field) then redis.call('hdel', lock, field) end
end

-- Ms that the longest read of the lock has left, and whether a writer holds it. Readers of ours
-- who died leave the lock.
local function longest_read(lock)
  local longest, has_writer = 0, false
  local fields = redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    local field = fields[i]
    if is_writer(field) then
      has_writer = true
    elseif field ~= 'mode' then
      local left = reads_left(lock, field, tonumber(fields[i + 1]) or 0)
      drop_if_dead(lock, field, left)
      longest = math.max(longest, left)
    end
  end
  return longest, has_writer
end

local function is_read_write(mode) return mode == 'read' or mode == 'write' end

-- Some of those who hold, a list of {field, count}: all of those of a writer, a few of many
-- readers. Nil: it is no read/write lock.
local function some_holders(lock, mode)
  if not is_read_write(mode) then return nil end
  local fields, some = redis.call('hrandfield', lock, 4, 'withvalues'), {}
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      local count = tonumber(fields[i + 1])
      if not count or not is_holder(fields[i]) then return nil end
      some[#some + 1] = {fields[i], count}
    end
  end
  return #some > 0 and some or nil
end

-- Whether one of some readers has `least` ms left: not to look at all of them is what makes
-- many readers cheap. A writer always has.
local function is_upheld(lock, least)
  for _, one in ipairs(some_holders(lock, 'read') or {}) do
    local field, count = one[1], one[2]
    if is_writer(field) or reads_left(lock, field, count, least) >= least then return true end
  end
  return false
end

-- A reader that holds, or a Java client that may: see drop_if_dead(). Nil: those in the hash
-- have all died, and it is free.
local function living_reader(lock, some)
  for _, one in ipairs(some) do
    if reads_left(lock, one[1], one[2], 1) > 0 then return one[1] end
  end
  local fields, java = redis.call('hgetall', lock), nil
  for i = 1, #fields, 2 do
    local field = fields[i]
    local count = field ~= 'mode' and tonumber(fields[i + 1]) or 0
    if reads_left(lock, field, count, 1) > 0 then return field end
    if field ~= 'mode' and not is_ours(field) then java = field end
  end
  return java
end

-- The reads of ours that have this fencing token: one, or those of an owner, each as {holder,
-- lease id, record}.
local function reads_of_grant(lock, token)
  local fields, holders, keys, records = redis.call('hgetall', lock), {}, {}, {}
  for i = 1, #fields, 2 do
    local field = fields[i]
    local count = is_ours(field) and not is_writer(field) and tonumber(fields[i + 1]) or 0
    for number = 1, count do
      holders[#holders + 1], keys[#keys + 1] = field, read_key(lock, field, number)
    end
  end
  local lease_ids = get_many(keys)
  for i, lease_id in ipairs(lease_ids) do records[i] = record_key(lease_id or '') end
  local found = {}
  for i, text in ipairs(get_many(records)) do
    local record = text and string.find(text, token, 1, true) and parse(text)
    if record and token_for(record, lock) == token then
      found[#found + 1] = {holders[i], lease_ids[i], record}
    end
  end
  return found
end

-- A hold has gone, a read with `own` ms left: the lock lasts as long as the longest read that
-- is left, and without any it is free. Where a writer is left it stays as it is. `message`:
-- Redisson's for whoever waits.
local function settle_readers(lock, message, own)
  local before = redis.call('pttl', lock)
  if message == '0' and before >= 0 then
    if is_upheld(lock, own < before - 1 and 1 or before - 1) then return end
  end
  local longest, has_writer = longest_read(lock)
  if has_writer then return end
  if longest == 0 then
    redis.call('del', lock)
    redis.call('publish', rw_channel(lock), message)
    -- Redisson wakes those that are parked at a 1; whoever is about to park finds a 0.
    if message == '1' then redis.call('publish', rw_channel(lock), '0') end
    return
  end
  redis.call('pexpire', lock, longest)
  if message == '1' then -- the writer goes on as a reader: others may read, too
    redis.call('hset', lock, 'mode', 'read')
    redis.call('publish', rw_channel(lock), message)
  elseif longest < POLL_MS and longest < before and
    redis.call('zcard', companion('rlockd:waiters', lock)) > 0 then
    redis.call('publish', rw_channel(lock), message) -- they sleep as long as they were told
  end
end

-- What is left of the reads of one who lost some leaves the lock, if it still is one to read
-- and write: by now the name may be another lock's.
local function leave_readers(lock, holder)
  if not is_read_write(redis.call('hget', lock, 'mode')) then return end
  if drop_ended_reads(lock, holder) > 0 or redis.call('hlen', lock) ~= 1 then return end
  redis.call('del', lock)
  redis.call('publish', rw_channel(lock), '0')
end

-- Takes a read that was deleted off the count: the last one gets its number.
local function take_read_off(lock, holder, number)
  local known = reads_of(lock, holder)
  if known.alive < known.count then return drop_ended_reads(lock, holder) end
  local last = known.count
  known.numbers[known.ids[number]] = nil
  if number < last then
    redis.call('rename', read_key(lock, holder, last), read_key(lock, holder, number))
    known.ids[number] = known.ids[last]
    known.numbers[known.ids[last]] = number
  end
  known.ids[last], known.count, known.alive = nil, last - 1, last - 1
  if last == 1 then
    redis.call('hdel', lock, holder)
  else
    redis.call('hincrby', lock, holder, -1)
  end
  return last - 1
end

-- Ends this lease's read and returns how many its holder has left; false: it was over. Its
-- first write is one that Redis allows when memory is short.
local function end_read(lock, holder, lease_id)
  local number = find_read(lock, holder, lease_id)
  if not number then return false end
  local key = read_key(lock, holder, number)
  local own = redis.call('pttl', key)
  redis.call('del', key)
  local left = take_read_off(lock, holder, number)
  settle_readers(lock, '0', own)
  return left
end

-- Takes one write off and returns how many are left; false: there was none. Its first write is
-- one that Redis allows when memory is short.
local function end_write(lock, holder)
  local count = tonumber(redis.call('hget', lock, holder)) or 0
  if count == 0 then return false end
  if count > 1 then
    begin_writing(lock)
    return redis.call('hincrby', lock, holder, -1)
  end
  redis.call('hdel', lock, holder)
  settle_readers(lock, '1', 0)
  return 0
end

-- The read lasts `ttl` from now, and the lock as long as its longest read. False: it is over.
local function prolong_read(lock, holder, lease_id, ttl)
  local number = find_read(lock, holder, lease_id)
  if not number then return false end
  local key, left = read_key(lock, holder, number), redis.call('pttl', lock)
  local was_longest = redis.call('pttl', key) >= left - 1
  redis.call('pexpire', key, ttl)
  if tonumber(ttl) >= left then
    redis.call('pexpire', lock, ttl)
  elseif was_longest then
    local longest, has_writer = longest_read(lock)
    if not has_writer then redis.call('pexpire', lock, longest) end
    redis.call('publish', rw_channel(lock), '0') -- waiters sleep as long as they were told
  end
  return true
end
