-- The record of the holder, for the common case of a refused request. This module is apart from
-- lib/first.lua because a refused request that does not wait needs no other function.

-- The record of the lease that holds the lock with this holder field, of the kind whose name
-- ends the records `tail`: their last lines, kind and owner; nil: another holder. `record`: the
-- key of the request's own.
local function record_of_holder(field, record, lease_id, tail)
  local id = string.match(field, '^(%x+%-%x+%-5[^:]*):0$')
  if not id or id == lease_id then return nil end
  local text = try('get', string.sub(record, 1, -#lease_id - 1) .. id)
  return type(text) == 'string' and string.match(text, '^held\n.*' .. tail .. '$') or nil
end

return {record_of_holder = record_of_holder}
