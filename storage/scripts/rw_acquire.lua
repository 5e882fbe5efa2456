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

-- A grant with a fencing token of its own, or with that of the owner who holds already.
local function grant(shared_token)
  local token, err = shared_token, nil
  if not token then token, err = next_token(counter) end
  if not token then return refuse(err) end
  bind(token)
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
local fields = read_write_fields(lock)
if not fields then return refuse({'wrong-kind'}) end

local function busy(field)
  if tonumber(wait) > 0 then stand_in_line() end
  return {'busy', redis.call('pttl', lock), field}
end

if held_for == 'write' then
  local writer = holder_of({kind = 'write', owner = owner, session = session}, lease_id)
  if redis.call('hexists', lock, writer) == 1 then
    if kind == 'read' then drop_ended_reads(lock, holder) end
    return grant(redis.call('get', counter) or '0')
  end
  for i = 1, #fields, 2 do
    if is_writer(fields[i]) then return busy(fields[i]) end
  end
  return refuse({'wrong-kind'})
end

if kind == 'read' then
  -- A reader that joins has a token of its own; another read of one owner shares the owner's.
  local shares = drop_ended_reads(lock, holder) > 0
  return grant(shares and token_of_reads(lock, holder))
end
local reader = living_reader(lock, fields)
if not reader then
  redis.call('del', lock)
  return grant()
end
local own = holder_of({kind = 'read', owner = owner, session = session}, lease_id)
if owner ~= '' and drop_ended_reads(lock, own) > 0 then return refuse({'upgrade'}) end
return busy(reader)
