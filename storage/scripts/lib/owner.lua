-- The owner entry of a lock that an owner holds: `rlockd:owner:{<lock>}`, a string of three
-- lines: the holder field, the kind of lease and the name of the session, with the caller
-- behind it as behind the note of a record (lib/record.lua). It is needed because
-- kinds "lock" and "fair" look alike in the lock's hash, and an owner's holder field names no
-- lease. The entry is valid while its first line is the lock's holder field.
local keys = lib.keys

-- Call it after the first write of a grant.
local function write(lease, lock, ttl)
  if lease.owner == '' or lease.kind == 'read' then return end
  local text = lib.record.holder_of(lease) .. '\n' .. lease.kind .. '\n' ..
    lease.session_name .. lib.record.caller_of(lease.note)
  call('set', keys.sibling(lock, 'owner'), text, 'px', ttl)
end

-- The owner entry lasts as long as the lock.
local function extend(lease, lock, ttl)
  if lease.owner ~= '' then call('pexpire', keys.sibling(lock, 'owner'), ttl) end
end

local function clear(lease, lock)
  if lease.owner ~= '' then call('del', keys.sibling(lock, 'owner')) end
end

-- The text of the owner entry, its kind and session name, if it is valid for the holder
-- `field`; or nil.
local function find(lock, field)
  local text = try('get', keys.sibling(lock, 'owner'))
  if type(text) ~= 'string' then return nil end
  local own, kind, name = string.match(text, '^([^\n]*)\n([^\n]*)\n([^\n]*)$')
  if own ~= field then return nil end
  return text, kind, name
end

return {write = write, extend = extend, clear = clear, find = find}
