-- What the scripts share that acquire to read or to write.
-- include request

-- What stands against it: a reply, or nothing. Then what is there: some of those who hold, the
-- fencing token that the lease shares with others of its owner, and whether all who hold died.
local function read_write_objection(lock)
  local held_for = redis.pcall('hget', lock, 'mode')
  if type(held_for) == 'table' then return {'wrong-kind'} end
  if not held_for then
    local is_free = redis.call('exists', lock, queue_of(lock)) == 0
    return not is_free and {'wrong-kind'} or nil, {some = {}}
  end
  local some = some_holders(lock, held_for)
  if not some then return {'wrong-kind'} end

  if held_for == 'write' then
    local writer = holder_of({kind = 'write', owner = owner, session = session,
      locks = wanted.locks}, lease_id)
    if redis.call('hexists', lock, writer) == 1 then
      return nil, {some = some, token = redis.call('get', counter_of(lock)) or '0'}
    end
    for _, one in ipairs(some) do
      if is_writer(one[1]) then return {'busy', redis.call('pttl', lock), one[1]} end
    end
    return {'wrong-kind'}
  end

  -- A reader that joins has a token of its own; another read of one owner shares the owner's.
  if kind == 'read' then return nil, {some = some, token = token_of_reads(lock, holder)} end
  local reader = living_reader(lock, some)
  if not reader then return nil, {some = some, is_dead = true} end
  local own = holder_of({kind = 'read', owner = owner, session = session}, lease_id)
  if owner ~= '' and reads_left(lock, own, redis.call('hget', lock, own) or 0, 1) > 0 then
    return {'upgrade'}
  end
  return {'busy', redis.call('pttl', lock), reader}
end

-- Takes a lock that nothing stands against. Returns its holds. Not a script's first write.
local function take_read_write(lock, there)
  if there.is_dead then redis.call('del', lock) end
  if kind == 'read' then
    drop_ended_reads(lock, holder)
    -- A few at a time, so that the dead do not pile up where somebody reads all the time.
    for _, one in ipairs(there.some) do
      if not is_writer(one[1]) and one[1] ~= holder then
        drop_if_dead(lock, one[1], reads_left(lock, one[1], one[2], 1))
      end
    end
  end
  local left = redis.call('pttl', lock)
  if left == -2 then redis.call('hset', lock, 'mode', kind) end
  local count = redis.call('hincrby', lock, holder, 1)
  if kind == 'read' then
    redis.call('set', read_key(lock, holder, count), lease_id, 'px', ttl)
  end
  if tonumber(ttl) > left then redis.call('pexpire', lock, ttl) end
  return count
end
