-- What the scripts share about read/write locks, in the layout of Redisson's RReadWriteLock.
--
-- The lock's hash: `mode` (read, write), reader -> reads, writer (`:write` at its end) ->
-- writes. Each read has a string of its own whose TTL is its lease, numbered from 1 to the
-- reader's count. Redisson's hold a 1; ours hold the id of their lease, so that each is told
-- from the others of its owner.

local function read_key(lock, holder, number)
  return suffixed(lock, holder .. ':rwlock_timeout:' .. number)
end

local function rw_channel(lock) return companion('redisson_rwlock', lock) end

local function is_writer(field) return string.sub(field, -6) == ':write' end

-- Ms that the longest of a reader's reads has left; 0: they are all over.
local function reads_left(lock, holder, count)
  local longest = 0
  for number = 1, count do
    longest = math.max(longest, redis.call('pttl', read_key(lock, holder, number)))
  end
  return longest
end

-- The number of this lease's read, and how many its holder has; nil: it is over.
local function find_read(lock, holder, lease_id)
  local count = tonumber(redis.call('hget', lock, holder)) or 0
  for number = 1, count do
    if redis.call('get', read_key(lock, holder, number)) == lease_id then
      return number, count
    end
  end
  return nil
end

-- Ms that this lease's read has left; nil: it is over.
local function read_left(lock, holder, lease_id)
  local number = find_read(lock, holder, lease_id)
  return number and redis.call('pttl', read_key(lock, holder, number))
end

-- Reads of this holder that ended by themselves leave the count, and the others move up: the
-- numbers go from 1 to the count. Returns the count.
local function drop_ended_reads(lock, holder)
  local count = tonumber(redis.call('hget', lock, holder)) or 0
  local alive = 0
  for number = 1, count do
    local key = read_key(lock, holder, number)
    if redis.call('exists', key) == 1 then
      alive = alive + 1
      if alive < number then redis.call('rename', key, read_key(lock, holder, alive)) end
    end
  end
  if alive == 0 then
    redis.call('hdel', lock, holder)
  elseif alive < count then
    redis.call('hincrby', lock, holder, alive - count)
  end
  return alive
end

-- The fencing token that the reads of an owner of ours share; nil: nobody knows.
local function token_of_reads(lock, holder)
  local lease_id = redis.call('get', read_key(lock, holder, 1))
  local record = lease_id and parse(redis.call('get', record_key(lease_id)) or nil)
  return record and record.token ~= '' and record.token or nil
end

-- Ms that the longest read of the lock has left, and whether a writer holds it.
local function longest_read(lock)
  local longest, has_writer = 0, false
  local fields = redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    if is_writer(fields[i]) then
      has_writer = true
    elseif fields[i] ~= 'mode' then
      longest = math.max(longest, reads_left(lock, fields[i], tonumber(fields[i + 1]) or 0))
    end
  end
  return longest, has_writer
end

-- Its hash, when every field of it is one of a read/write lock; nil: it is something else.
local function read_write_fields(lock)
  local fields, mode = redis.call('hgetall', lock), nil
  for i = 1, #fields, 2 do
    if fields[i] == 'mode' then
      mode = fields[i + 1]
    elseif not is_holder(fields[i]) then
      return nil
    end
  end
  return (mode == 'read' or mode == 'write') and fields or nil
end

-- A reader that holds; nil: those in the hash have all died, and it is free.
local function living_reader(lock, fields)
  for i = 1, #fields, 2 do
    local count = fields[i] ~= 'mode' and tonumber(fields[i + 1]) or 0
    if reads_left(lock, fields[i], count) > 0 then return fields[i] end
  end
  return nil
end

-- A hold has gone: the lock lasts as long as the longest read that is left, and without any it
-- is free. Where a writer is left it stays as it is. `message`: Redisson's for whoever waits.
local function settle_readers(lock, message)
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
  end
end

-- Ends this lease's read and returns how many its holder has left; false: it was over. Its
-- first write is one that Redis allows when memory is short.
local function end_read(lock, holder, lease_id)
  local number = find_read(lock, holder, lease_id)
  if not number then return false end
  redis.call('del', read_key(lock, holder, number))
  local left = drop_ended_reads(lock, holder)
  settle_readers(lock, '0')
  return left
end

-- Takes one write off and returns how many are left; false: there was none. Its first write is
-- one that Redis allows when memory is short.
local function end_write(lock, holder)
  local count = tonumber(redis.call('hget', lock, holder)) or 0
  if count == 0 then return false end
  if count > 1 then
    redis.call('pexpire', lock, redis.call('pttl', lock))
    return redis.call('hincrby', lock, holder, -1)
  end
  redis.call('hdel', lock, holder)
  settle_readers(lock, '1')
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
