-- The reads of one grant of a read/write lock.
local readers, record = lib.readers, lib.record

-- So many readers and so many of their reads at most are looked at.
local LOOK_MAX = 1000

-- The fields of readers of ours, each with its count: `asked` alone, or all, as far as they are
-- looked at; and whether there are more of them.
local function fields_of(lock, asked)
  if asked and asked ~= '' then return {asked, call('hget', lock, asked) or '0'}, false end
  local fields = call('hrandfield', lock, LOOK_MAX + 1, 'withvalues')
  return fields, #fields / 2 > LOOK_MAX
end

-- The reads of ours that have this fencing token, of the holder field `asked` or of any (nil):
-- one read, or those of an owner, each as {holder field, lease}; and whether there are more
-- reads than were looked at.
local function reads_of(lock, token, asked)
  local fields, has_more = fields_of(lock, asked)
  local holders, read_keys, record_keys = {}, {}, {}
  for i = 1, #fields, 2 do
    local field = fields[i]
    local is_read = lib.field.is_ours(field) and not readers.is_writer(field)
    for number = 1, is_read and tonumber(fields[i + 1]) or 0 do
      if #holders == LOOK_MAX then has_more = true break end
      holders[#holders + 1] = field
      read_keys[#read_keys + 1] = readers.key_of(lock, field, number)
    end
  end
  local refs = readers.get_many(read_keys)
  for i, ref in ipairs(refs) do record_keys[i] = lib.keys.sibling(lock, 'lease', ref or '') end
  local found = {}
  for i, text in ipairs(readers.get_many(record_keys)) do
    local lease = text and string.find(text, token, 1, true) and record.find(lock, refs[i])
    if lease and lease.tokens[1] == token then found[#found + 1] = {holders[i], lease} end
  end
  return found, has_more
end

return {reads_of = reads_of}
