-- Holder fields of a lock's hash.

-- Redisson's <uuid>:<thread>, and any text behind it.
local function is_holder(field)
  return string.find(field, '^%x+%-%x+%-%x+%-%x+%-%x+:') ~= nil
end

-- Ids that rlockd makes are UUIDs of version 5, those of Java clients of version 4.
local function is_ours(field) return string.find(field, '^%x+%-%x+%-5') ~= nil end

-- The ref (lib/record.lua) of the lease with the holder field `<id>:0` or `<id>:m`, with or
-- without the `:write` of a writer; nil: another field.
local function ref_of(field)
  local id, sign, rest = string.match(field, '^([^:]*):([0m])(.*)$')
  if not id or (rest ~= '' and rest ~= ':write') then return nil end
  return sign == 'm' and id .. ':m' or id
end

-- The session and the owner of a field `<session id>:<owner>`.
local function owner_of(field)
  local session, owner = string.match(field, '^([^:]*):(.*)$')
  return session, (string.gsub(owner, ':write$', ''))
end

return {is_holder = is_holder, is_ours = is_ours, ref_of = ref_of, owner_of = owner_of}
