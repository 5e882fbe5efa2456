-- Acquires a read/write lock for one lease, to read or to write, or confirms that this very
-- lease holds it, or registers the lease as a waiter. Readers share; an owner who writes may
-- read, too.
--
-- KEYS  1 lock: see lib/read_write.lua   2 fencing counter   3 lease record
--       4 the queue of a fair lock of that name
-- ARGV  those of lib/request.lua; kind is "read" or "write"
--
-- Replies  those of acquire.lua | upgrade: the owner reads, and would wait for itself
-- include token
local lock, counter = KEYS[1], KEYS[2]
local wanted = {lock = lock}
-- include request

local some = {}       -- of those who hold
local is_dead = false -- they all died

-- A grant with a fencing token of its own, or with that of the owner who holds already. The
-- first write is one that fails when memory is short.
local function grant(shared_token)
  local token, err = shared_token, nil
  if not token then token, err = next_token(counter) end
  if not token then return refuse(err) end
  bind(token)
  if is_dead then redis.call('del', lock) end
  if kind == 'read' then
    drop_ended_reads(lock, holder)
    -- A few at a time, so that the dead do not pile up where somebody reads all the time.
    for _, one in ipairs(some) do
      if not is_writer(one[1]) and one[1] ~= holder then
        drop_if_dead(lock, one[1], reads_left(lock, one[1], one[2]))
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
  stop_waiting()
  return {'granted', token, ttl, '', count}
end

local function busy(field)
  if tonumber(wait) > 0 then stand_in_line() end
  return {'busy', redis.call('pttl', lock), field}
end

local said = settled()
if said then return said end
local no = objection()
if no then return refuse(no) end

local held_for = redis.pcall('hget', lock, 'mode')
if type(held_for) == 'table' then return refuse(held_for) end
if not held_for then
  if redis.call('exists', lock, KEYS[4]) > 0 then return refuse({'wrong-kind'}) end
  return grant()
end
some = some_holders(lock, held_for)
if not some then return refuse({'wrong-kind'}) end

if held_for == 'write' then
  local writer = holder_of({kind = 'write', owner = owner, session = session}, lease_id)
  if redis.call('hexists', lock, writer) == 1 then
    return grant(redis.call('get', counter) or '0')
  end
  for _, one in ipairs(some) do
    if is_writer(one[1]) then return busy(one[1]) end
  end
  return refuse({'wrong-kind'})
end

-- A reader that joins has a token of its own; another read of one owner shares the owner's.
if kind == 'read' then return grant(token_of_reads(lock, holder)) end
local reader = living_reader(lock, some)
if not reader then
  is_dead = true
  return grant()
end
local own = holder_of({kind = 'read', owner = owner, session = session}, lease_id)
if owner ~= '' and reads_left(lock, own, redis.call('hget', lock, own) or 0) > 0 then
  return refuse({'upgrade'})
end
return busy(reader)
