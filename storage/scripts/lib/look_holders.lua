-- The holders of a lock, as a look names them.
local readers, field_of = lib.readers, lib.field

-- The values of one holder for the reply. A holder of rlockd has a record, or is an owner of a
-- session. `left`: ms that it holds for.
local function describe(look, field, count, left)
  local lock, mode, is_writer = look.lock, look.mode, readers.is_writer(field)
  local own_mode = mode and (is_writer and 'write' or 'read')
  local kind, text, lease = lib.holder.describe(lock, field, own_mode)
  local is_ours = field_of.is_ours(field)
  local note, session, name, owner, watchdog, token = '', '', '', '', '', ''
  if lease then
    session, name, token = lease.session, lease.session_name, lease.tokens[1]
  elseif text ~= '' then
    name, note = string.match(text, '([^\n\31]*)(\31?[^\n]*)$')
  end
  if lease and lease.owner == '' then
    note, watchdog = lease.note, lease.watchdog
  else
    -- Any of the owner's leases: its note is not the owner's.
    if lease then note = lib.record.caller_of(lease.note) end
    if is_ours and (text ~= '' or not field_of.ref_of(field)) then
      session, owner = field_of.owner_of(field)
    end
  end
  -- A Java client's write has no token; that of its plain lock is not known for sure.
  if token == '' and own_mode ~= 'read' and (not is_writer or is_ours) then
    token = look.last_token
  end
  -- A hold that is older than the node's process counts for nothing until it is confirmed.
  --quorum: if lease and not lib.vote.is_confirmed(lease) then token = '' end
  return {field, count, note, session, name, owner, watchdog, own_mode or kind or 'lock', token,
    left}
end

local function add_holder(look, field, count, left)
  look.count = look.count + 1
  if look.count > look.most then return end
  local values = describe(look, field, count, left)
  look.kind = look.mode or values[8]
  look.is_current = look.is_current or
    (look.asked_token ~= '' and values[9] == look.asked_token)
  for _, value in ipairs(values) do look.holders[#look.holders + 1] = value end
end

-- Adds the living holders among these fields. Returns the number of dead readers, which stay in
-- the hash until a request notices; nil: the hash is no lock.
local function add_living(look, drawn)
  local dead, keyless = 0, nil -- see drop_if_dead() in lib/readers.lua
  for i = 1, #drawn, 2 do
    local field, count = drawn[i], tonumber(drawn[i + 1]) or 0
    if field ~= 'mode' then
      if not field_of.is_holder(field) then return nil end
      local is_read = look.mode and not readers.is_writer(field)
      local left = is_read and readers.reads_left(look.lock, field, count) or look.remaining
      if left ~= 0 then
        add_holder(look, field, count, left)
      else
        dead = dead + 1
        if not field_of.is_ours(field) then keyless = {field, count} end
      end
    end
  end
  if keyless and look.count == 0 then
    add_holder(look, keyless[1], keyless[2], look.remaining)
  end
  return dead
end

-- The reads of these fields: a look at one costs a command.
local function reads_of(fields)
  local reads = 0
  for i = 2, #fields, 2 do reads = reads + (tonumber(fields[i]) or 0) end
  return reads
end

-- Looks at the holders, and names at most `most` of them. `asked_token`: the fencing token that
-- is asked for, or "". `is_first`: a look that names more follows if `count` is `most` or more,
-- which it is, too, where the readers have many reads. Returns a table with
--   mode        of a read/write lock; nil: another lock
--   remaining   ms for which the lock is held; -2: it is free
--   last_token  "0": none
--   kind        as far as the data tells, or ""
--   holders     the values of the holders that are named
--   count       of all holders
--   is_current  whether a holder that is named has the token that is asked for
-- Nil and a reply: the name is that of no lock.
local function find(lock, counter, most, asked_token, is_first)
  local mode = try('hget', lock, 'mode')
  if type(mode) == 'table' then return nil, mode end
  local look = {
    lock = lock, mode = mode, remaining = call('pttl', lock),
    last_token = call('get', counter) or '0', kind = '', holders = {}, count = 0,
    most = most, asked_token = asked_token, is_current = false
  }

  -- A hash that is no lock may have any number of fields.
  local fields = call('hrandfield', lock, mode and most + 1 or 2, 'withvalues')
  if mode and not readers.some_holders(lock, mode) then return nil, {'wrong-kind'} end
  if is_first and mode and reads_of(fields) > 2 * most then
    look.kind, look.count = mode, most
    return look
  end
  local dead = add_living(look, fields)
  if not dead or not mode and look.count > 1 then return nil, {'wrong-kind'} end
  local is_all = not mode or #fields / 2 <= most
  if not is_all and not is_first and dead > 0 and most < readers.READERS_MAX then
    -- The living may be among the readers that were not drawn.
    look.holders, look.count, look.is_current = {}, 0, false
    fields, is_all = readers.fields_of(lock)
    if not add_living(look, fields) then return nil, {'wrong-kind'} end
  end
  if not is_all then look.kind, look.count = mode, call('hlen', lock) - 1 end
  if look.count == 0 then
    look.remaining = -2
    if mode then look.kind = '' end
  end
  return look
end

return {find = find}
