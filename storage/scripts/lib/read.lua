-- Leases of kind "read": the functions of lib/lock.lua for a read/write lock to read. Each read
-- is a key of its own, numbered from 1 to the holds of its reader, with the lease's ref.
local holder_of, readers = lib.record.holder_of, lib.readers

-- The reads of a reader with many leases are read once per script: `known` keeps for a reader
-- number -> ref and ref -> number, the number of reads in the hash, and the number of reads
-- that have not ended.
local known_reads = {}

local function reads_of(lock, holder)
  local name = lock .. '\n' .. holder
  local known = known_reads[name]
  if known then return known end
  known = {refs = {}, numbers = {}, alive = 0, count = readers.count_of(lock, holder)}
  local read_keys = {}
  for at = 1, known.count do read_keys[at] = readers.key_of(lock, holder, at) end
  for at, ref in ipairs(readers.get_many(read_keys)) do
    if ref then
      known.refs[at], known.numbers[ref] = ref, at
      known.alive = known.alive + 1
    end
  end
  known_reads[name] = known
  return known
end

-- The number of the lease's read; nil: the read has ended.
local function number_of(lease, lock)
  return reads_of(lock, holder_of(lease)).numbers[lease.ref]
end

local function is_held(lease, lock)
  local known = reads_of(lock, holder_of(lease))
  return known.numbers[lease.ref] and known.count
end

local function left_of(lease, lock)
  local at = number_of(lease, lock)
  return at and call('pttl', readers.key_of(lock, holder_of(lease), at))
end

-- Lowers the count for a read whose key was deleted: the last read gets its number.
local function remove_read(lock, holder, at)
  local known = reads_of(lock, holder)
  if known.alive < known.count then
    known_reads = {}
    return readers.drop_ended(lock, holder)
  end
  local last = known.count
  known.numbers[known.refs[at]] = nil
  if at < last then
    call('rename', readers.key_of(lock, holder, last), readers.key_of(lock, holder, at))
    known.refs[at] = known.refs[last]
    known.numbers[known.refs[last]] = at
  end
  known.refs[last], known.count, known.alive = nil, last - 1, last - 1
  if last == 1 then
    call('hdel', lock, holder)
  else
    call('hincrby', lock, holder, -1)
  end
  return last - 1
end

local function release(lease, lock)
  local holder, at = holder_of(lease), number_of(lease, lock)
  if not at then return false end
  local key = readers.key_of(lock, holder, at)
  local own = call('pttl', key)
  call('del', key)
  local left = remove_read(lock, holder, at)
  readers.hold_ended(lock, '0', own)
  return left
end

-- Only the field of a lease without owner, which has one read.
local function field_removed(lease, lock)
  local key = readers.key_of(lock, holder_of(lease), 1)
  local own = call('pttl', key)
  call('del', key)
  readers.hold_ended(lock, '0', own)
  return own ~= -2
end

local function set_ttl(lease, lock, ttl)
  local at = number_of(lease, lock)
  if not at then return end
  local key, left = readers.key_of(lock, holder_of(lease), at), call('pttl', lock)
  local before = call('pttl', key)
  call('pexpire', key, ttl)
  if tonumber(ttl) >= left then
    call('pexpire', lock, ttl)
  elseif tonumber(ttl) < before then
    local longest, has_writer, is_all = readers.longest(lock)
    if has_writer or not is_all or longest >= left - 1 then return end
    call('pexpire', lock, longest)
    readers.publish_free(lock, '1') -- waiters sleep for as long as the lock was to last
  end
end

local function extend(lease, lock, ttl)
  local left = left_of(lease, lock)
  if left and left < tonumber(ttl) then set_ttl(lease, lock, ttl) end
end

local function left(lease, lock) return left_of(lease, lock) or 0 end

-- Removes the remaining reads of a reader that lost some of its reads, if the key still is a
-- read/write lock.
local function clear(lease, lock)
  if not readers.is_mode(call('hget', lock, 'mode')) then return end
  known_reads = {}
  if readers.drop_ended(lock, holder_of(lease)) > 0 or call('hlen', lock) ~= 1 then return end
  call('del', lock)
  readers.wake(lock)
end

return {
  is_held = is_held, release = release, field_removed = field_removed, extend = extend,
  set_ttl = set_ttl, left = left, number_of = number_of, clear = clear, wake = readers.wake,
  field_end = ''
}
