-- Requests to read or to write: the checks before a grant, and the grant.
local keys, readers, holder_of = lib.keys, lib.readers, lib.record.holder_of

-- The largest number of reads of one owner on a lock: scripts look at all of them.
local OWNER_READS_MAX = 100

local function busy(lock, field, mode, number)
  return lib.holder.busy_with(call('pttl', lock), lock, field, mode, number)
end

-- The holder field that the request's lease would have if it were of this kind.
local function holder_as(kind, request)
  return holder_of({
    kind = kind, id = request.id, owner = request.owner, session = request.session,
    is_set = request.is_set
  })
end

-- Whether the owner has as many reads of the lock as it may have.
local function is_full(request, lock)
  if request.kind ~= 'read' or request.owner == '' then return false end
  local holder = holder_of(request)
  local count = tonumber(call('hget', lock, holder)) or 0
  return count >= OWNER_READS_MAX and readers.drop_ended(lock, holder) >= OWNER_READS_MAX
end

local function writer_refusal(request, lock, some, number)
  if call('hexists', lock, holder_as('write', request)) == 1 then
    return nil, {some = some, token = call('get', keys.counter_of(lock)) or '0'}
  end
  for _, one in ipairs(some) do
    if readers.is_writer(one[1]) then return busy(lock, one[1], 'write', number) end
  end
  return {'wrong-kind'}
end

-- For restore.some(): a request for several locks looks at too many readers to ask for the time
-- of each.
local function window_of(request) return #request.locks == 1 and request.window or nil end

-- A reader that holds, or a Java client that may hold: see drop_if_dead(). Nil: all readers in
-- the hash have expired, and the lock is free. When there are more readers than one call looks
-- at, the expired readers are removed, and the last reader blocks the request until the next
-- call.
local function living_reader(lock, some, window)
  local living
  for _, one in ipairs(some) do
    if lib.restore.some(lock, one[1], one[2], window) > 0 then living = one[1] end
  end
  if living then return living end
  local fields, is_all = readers.fields_of(lock)
  local java, last = nil, nil
  for i = 1, #fields, 2 do
    local field = fields[i]
    local count = field ~= 'mode' and tonumber(fields[i + 1]) or 0
    if readers.reads_left(lock, field, count, 1) > 0 then return field end
    if field ~= 'mode' then
      last = field
      if not lib.field.is_ours(field) then java = field end
    end
  end
  if is_all then return java end
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field ~= 'mode' and field ~= last then readers.drop_if_dead(lock, field, 0) end
  end
  return java or last
end

-- The reply that refuses a grant of the lock; or nil and the state of the lock: `some` of its
-- holders (nil: the lock is free), the fencing `token` that the lease shares with other leases
-- of its owner, and whether all holders have expired. `number`: number of the lock in a set.
local function refusal(request, lock, number)
  local mode = try('hget', lock, 'mode')
  if type(mode) == 'table' then return {'wrong-kind'} end
  if not mode then
    local is_free = call('exists', lock) == 0 and lib.fair_empty.is_empty(lock)
    return not is_free and {'wrong-kind'} or nil, {}
  end
  local some = readers.some_holders(lock, mode)
  if not some then return {'wrong-kind'} end
  if is_full(request, lock) then return {'many-reads', number} end
  if mode == 'write' then return writer_refusal(request, lock, some, number) end

  -- A reader that joins has a token of its own; another read of an owner shares the owner's.
  if request.kind == 'read' then
    return nil, {some = some, token = readers.token_of(lock, holder_of(request))}
  end
  local own = request.owner ~= '' and holder_as('read', request)
  if own and readers.reads_left(lock, own, call('hget', lock, own) or 0, 1) > 0 then
    return {'upgrade'}
  end
  local reader = living_reader(lock, some, window_of(request))
  if not reader then return nil, {some = some, is_dead = true} end
  return busy(lock, reader, 'read', number)
end

-- Removes the reader's ended reads from its count, and a few expired readers from the lock:
-- otherwise both would pile up while readers come all the time.
local function tidy(lock, holder, some, window)
  readers.drop_ended(lock, holder)
  for _, one in ipairs(some) do
    if not readers.is_writer(one[1]) and one[1] ~= holder then
      local left = lib.restore.some(lock, one[1], one[2], window)
      if left == 0 then left = readers.reads_left(lock, one[1], one[2], 1) end
      readers.drop_if_dead(lock, one[1], left)
    end
  end
end

-- Grants a lock for which refusal() returned nil. Returns the holds. Not for a script's first
-- write.
local function take(request, lock, found)
  local holder, kind, ttl, count, left = holder_of(request), request.kind, request.ttl, 1, -2
  if found.is_dead then call('del', lock) end
  if found.some then
    if kind == 'read' then tidy(lock, holder, found.some, window_of(request)) end
    left = call('pttl', lock)
    if left == -2 then call('hset', lock, 'mode', kind) end
    count = call('hincrby', lock, holder, 1)
    -- A grant sets the TTL of the counter, which has to outlast the other leases, too.
    if left > tonumber(ttl) then lib.token.keep(keys.counter_of(lock), left) end
  else
    call('hset', lock, 'mode', kind, holder, '1')
  end
  if kind == 'read' then
    call('set', readers.key_of(lock, holder, count), request.ref, 'px', ttl)
  end
  if tonumber(ttl) > left then call('pexpire', lock, ttl) end
  if request.owner ~= '' then
    lib.owner.write(request, lock, lib.number.integer(math.max(tonumber(ttl), left)))
  end
  return count
end

return {refusal = refusal, take = take}
