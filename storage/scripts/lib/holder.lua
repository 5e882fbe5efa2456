-- The holder of a lock, in the form of a reply.
local field_of, record = lib.field, lib.record

-- The record of a lease of an owner that reads.
local function reading(lock, field)
  local ref = try('get', lib.readers.key_of(lock, field, 1))
  if type(ref) ~= 'string' or #ref < 36 then return nil end
  return record.find(lock, ref)
end

-- Describes the holder `field` of a lock:
--   kind   of a lock without a mode, "lock" or "fair", which look alike in Redis; nil: a Java
--          client holds the lock, and no client waits in a queue
--   text   the record of the holder's lease; of an owner three lines: see lib/owner.lua; of an
--          owner that reads the record of one of its leases, by `find_reading`; "": none of
--          them
--   lease  that of the record, if there is one
local function describe_by(find_reading, lock, field, mode)
  local is_ours = field_of.is_ours(field)
  local ref = is_ours and field_of.ref_of(field)
  local lease, text
  if ref then lease, text = record.find(lock, ref) end
  if not lease and is_ours then
    if mode == 'read' then
      lease, text = find_reading(lock, field)
    else
      local marker, kind = lib.owner.find(lock, field)
      if marker then return kind, marker end
    end
  end
  if lease and lease.state == 'held' then return lease.kind, text, lease end
  if ref then return mode or 'lock', '' end -- a lease without a record
  if not mode and call('exists', lib.keys.queue_of(lock)) == 1 then return 'fair', '' end
  return nil, ''
end

local function describe(lock, field, mode) return describe_by(reading, lock, field, mode) end

-- The holder of a lock without a mode: field, holds, and its kind and text as above. Nil and a
-- reply: there is another number of holders, or another type of key.
local function only(lock)
  local fields = try('hrandfield', lock, 2, 'withvalues')
  if fields.err then return nil, fields end
  if #fields ~= 2 or not field_of.is_holder(fields[1]) then return nil, {'wrong-kind'} end
  return fields[1], fields[2], describe_by(nil, lock, fields[1])
end

-- The fencing token of a holder of rlockd where its text has none: of a plain lease and of an
-- owner it is the lock's last token. Else "".
local function token_of(lock, field, text)
  if not field_of.is_ours(field) then return '' end
  local is_record = string.sub(text, 1, 5) == 'held\n'
  if is_record and string.sub(text, -6) ~= '\nlock\n' then return '' end
  local token = try('get', lib.keys.counter_of(lock))
  return type(token) == 'string' and token or ''
end

-- The reply that the lock is busy. `remaining`: ms after which to try again. `text`: see
-- describe(). `number`: number of the lock in a set; nil: one lock. `token`: see token_of().
local function reply(remaining, field, count, text, token, number)
  return {'busy', remaining, field, tonumber(count) or 0, text, token, number}
end

-- The same with the token of the holder, which holds `count` times.
local function busy(remaining, lock, field, count, text, number)
  return reply(remaining, field, count, text, token_of(lock, field, text), number)
end

-- The same for a holder that has not been described yet, of a lock with the hash field `mode`
-- or without it (nil).
local function busy_with(remaining, lock, field, mode, number)
  local _, text = describe(lock, field, mode)
  local token = mode ~= 'read' and token_of(lock, field, text) or ''
  return reply(remaining, field, call('hget', lock, field), text, token, number)
end

-- A reply that a lease waits for this lock, whichever client holds it.
local function busy_now(lock, number)
  local fields, mode = try('hrandfield', lock, 2), nil
  if fields.err then fields = {} end
  for i = #fields, 1, -1 do
    if fields[i] == 'mode' then mode = table.remove(fields, i) end
  end
  local remaining = call('pttl', lock)
  if not fields[1] then return reply(remaining, '', 0, '', '', number) end
  if mode then mode = lib.readers.is_writer(fields[1]) and 'write' or 'read' end
  return busy_with(remaining, lock, fields[1], mode, number)
end

-- The same for all locks of a set: the first of them that is held.
local function busy_all(lease)
  if not lease.is_set then return busy_now(lease.locks[1]) end
  for i, lock in ipairs(lease.locks) do
    local found = busy_now(lock, i)
    if found[3] ~= '' then return found end
  end
  return reply(-1, '', 0, '', '', 0)
end

return {
  describe = describe, only = only, reply = reply, busy = busy, busy_with = busy_with,
  busy_all = busy_all
}
