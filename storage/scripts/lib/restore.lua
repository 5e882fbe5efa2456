-- Reads of rlockd that last as long again as they were to last. Before 4.4 Redisson sets the
-- TTL of all reads of a lock when it renews one. The record of a read's lease lasts `window` ms
-- longer than the lease, so it tells which time was taken away.
local readers, keys = lib.readers, lib.keys

-- The number of reads of one reader that a request looks at.
local READS_MAX = 10

-- Gives the time back to a read and to the lock. Returns the ms that the read has left. A read
-- that has ended stays so. The writes are such as Redis allows when memory is short.
local function restore(lock, field, number, record, window)
  local key = readers.key_of(lock, field, number)
  local left, ends = call('pttl', key), call('pttl', record) - window
  if left > 0 and ends > left + readers.DRIFT_MS then
    call('pexpire', key, ends)
    left = ends
  end
  readers.uphold(lock, field, left)
  return left
end

-- The same for the first reads of a reader, but nothing is given back to a Java client; without
-- `window` to the lock only. Returns the ms that the longest of them has left.
local function some(lock, field, count, window)
  count = math.min(count, READS_MAX)
  if not window or not lib.field.is_ours(field) then
    local left = readers.reads_left(lock, field, count)
    readers.uphold(lock, field, left)
    return left
  end
  local most = 0
  for number = 1, count do
    local ref = try('get', readers.key_of(lock, field, number))
    if type(ref) == 'string' then
      local record = keys.sibling(lock, 'lease', ref)
      most = math.max(most, restore(lock, field, number, record, window))
    end
  end
  return most
end

-- The same for the reads of a lease.
local function lease(own, window)
  for i, lock in ipairs(own.locks) do
    local number = lib.read.number_of(own, lock)
    if number then
      restore(lock, lib.record.holder_of(own), number, own.keys[i], window)
    end
  end
end

return {some = some, lease = lease}
