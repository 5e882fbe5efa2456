-- Looks at a hash for the census: whether it is a held lock, of which kind, and since when each
-- holder holds. Of a lock with more than a hundred readers it looks at some hundred, the same
-- ones each time.
-- KEYS lock counter queue
-- REPLY [] kind holders
-- REPLY [holder] field token
-- sync no
--
-- Replies  wrong-kind: the hash is no lock, or a free one; and this:
--   kind   lock, fair, read or write
--   token  the fencing token of the holder's grant, which is the time of the grant in µs if a
--          grant of rlockd made it; "": not known, for the holder is a Java client
local fields, mode = try('hrandfield', lock, 2, 'withvalues'), nil
if fields.err then return {'wrong-kind'} end

-- The common case: one holder, a Java client or a lease without an owner (lib/field.lua). The
-- text of a picture has a holder field between spaces.
local first = fields[1]
local id = #fields == 2 and string.match(first, '^(%x+%-%x+%-%x+%-%x+%-%x+):[^%c%s]*$')
if id and string.byte(id, 15) ~= 53 then -- "5": ids that rlockd makes
  return {call('exists', queue) == 1 and 'fair' or 'lock', {first, ''}}
elseif id and string.sub(first, 37) == ':0' then
  local record = string.gsub(counter, '^redisson_lock_token', 'rlockd:lease') .. ':' .. id
  local text = call('get', record) -- not there: it may be an owner of that name
  local token, own_kind =
    string.match(text or '', '^held\n.*\n([^\n]*)\n[^\n]*\n(%l+)\n[^\n]*$')
  if own_kind then
    if token == '' then token = call('get', counter) or '' end
    return {own_kind, {first, token}}
  end
end

-- modules lock fair read write
local field_of, readers = lib.field, lib.readers

-- Of very many readers some, the same ones at each look while they hold, but for a few: HSCAN
-- goes by the hashes of the fields. A reader that is in some samples only would seem to come
-- and go, and its hold to be short.
local function some_fields()
  local most = readers.READERS_MAX + 1
  if call('hlen', lock) <= most then return call('hrandfield', lock, most, 'withvalues') end
  local page = call('hscan', lock, '0', 'count', 2 * most)[2]
  return {unpack(page, 1, math.min(#page, 2 * most))}
end

if #fields ~= 2 or fields[1] == 'mode' then
  mode = call('hget', lock, 'mode')
  if not readers.is_mode(mode) then return {'wrong-kind'} end
  fields = some_fields()
end

local kind, holders, last_token = mode, {}, nil

-- Nil: a Java client's grant has no token of its own.
local function token_of(field, is_read)
  if not field_of.is_ours(field) then return nil end
  local own_mode = mode and (is_read and 'read' or 'write')
  local own_kind, _, lease = lib.holder.describe(lock, field, own_mode)
  kind = kind or own_kind
  if lease and lease.tokens[1] ~= '' then return lease.tokens[1] end
  if is_read then return nil end
  last_token = last_token or call('get', counter) or ''
  return last_token
end

for i = 1, #fields, 2 do
  local field, count = fields[i], tonumber(fields[i + 1]) or 0
  local is_read = mode and not readers.is_writer(field)
  if field ~= 'mode' and field_of.is_holder(field) and not string.find(field, '[%c%s]') and
    (not is_read or readers.reads_left(lock, field, count, 1) > 0) then
    holders[#holders + 1] = field
    holders[#holders + 1] = token_of(field, is_read) or ''
  end
end
if not holders[1] then return {'wrong-kind'} end
if not kind and call('exists', queue) == 1 then kind = 'fair' end
return {kind or 'lock', holders}
