-- The reads of one grant of a read/write lock.
local readers, record = lib.readers, lib.record

-- The largest number of reads to look at.
local READS_MAX = 200

-- The reads of rlockd at `read_keys`, of `holders`, that have the fencing token: each as
-- {holder field, lease}. Any client of Redis may write the record of another kind of lease.
local function with_token(lock, token, holders, read_keys)
  local refs, record_keys, found = readers.get_many(read_keys), {}, {}
  for i, ref in ipairs(refs) do record_keys[i] = lib.keys.sibling(lock, 'lease', ref or '') end
  for i, text in ipairs(readers.get_many(record_keys)) do
    local lease = text and string.find(text, token, 1, true) and record.find(lock, refs[i])
    if lease and lease.kind == 'read' and lease.tokens[1] == token then
      found[#found + 1] = {holders[i], lease}
    end
  end
  return found
end

-- The same for one reader: one read, or the reads of an owner.
local function reads_of(lock, token, holder)
  local holders, read_keys = {}, {}
  for number = 1, math.min(readers.count_of(lock, holder), READS_MAX) do
    holders[number] = holder
    read_keys[number] = readers.key_of(lock, holder, number)
  end
  return with_token(lock, token, holders, read_keys)
end

return {with_token = with_token, reads_of = reads_of}
