-- Acquires several locks of one kind for one lease, all of them or none, or confirms that this
-- very lease holds them, or registers the lease as a waiter for each.
--
-- KEYS  1 lease record
-- ARGV  those of lib/request.lua, all of them   14 the locks, each after a newline, in the
--       order of their names   15 the number of the one that was in the way last; 0: none
--
-- Replies  granted, tokens, ttl, "", holds           | busy, remaining ms, holder, number
--          held, tokens, remaining ms, record, holds | ended, reason | reused
--          session-ended, reason | wrong-kind, number | upgrade, number
--          tokens and holds: one of each lock, a blank between; number: of the lock
--
-- All are on one server, so a script takes all or none of them, and nobody waits for one while
-- holding another. (A cluster has no such script: there they would have to be taken one by one
-- in the order of their names, and given back when one of them cannot be had.)
-- include token
local wanted = {locks = {}}
for lock in string.gmatch(ARGV[14], '[^\n]+') do table.insert(wanted.locks, lock) end
-- include request

-- What stands against taking the lock: a reply, or nothing; then the token that it shares with
-- another lease of its owner, or nothing.
local function lock_objection(lock)
  local remaining = redis.call('pttl', lock)
  if remaining == -2 then
    return redis.call('exists', queue_of(lock)) == 1 and {'wrong-kind'} or nil
  end
  local fields = redis.pcall('hrandfield', lock, 2)
  local found = not fields.err and #fields == 1 and is_holder(fields[1])
  if not found or kind_of_holder(lock, fields[1]) == 'fair' then return {'wrong-kind'} end
  if fields[1] ~= holder then return {'busy', remaining, fields[1]} end
  return nil, redis.call('get', counter_of(lock)) or '0'
end

-- The same of one that is written under.
local function write_objection(lock, fields)
  local writer = holder_of({kind = 'write', owner = owner, session = session,
    locks = wanted.locks}, lease_id)
  if redis.call('hexists', lock, writer) == 1 then
    if kind == 'read' then drop_ended_reads(lock, holder) end
    return nil, redis.call('get', counter_of(lock)) or '0'
  end
  for i = 1, #fields, 2 do
    if is_writer(fields[i]) then return {'busy', redis.call('pttl', lock), fields[i]} end
  end
  return {'wrong-kind'}
end

local function read_write_objection(lock)
  local held_for = redis.pcall('hget', lock, 'mode')
  if type(held_for) == 'table' then return {'wrong-kind'} end
  if not held_for then
    return redis.call('exists', lock, queue_of(lock)) > 0 and {'wrong-kind'} or nil
  end
  local fields = read_write_fields(lock)
  if not fields then return {'wrong-kind'} end
  if held_for == 'write' then return write_objection(lock, fields) end
  if kind == 'read' then
    local shares = drop_ended_reads(lock, holder) > 0
    return nil, shares and token_of_reads(lock, holder) or nil
  end
  local reader = living_reader(lock, fields)
  if not reader then return nil end
  local own = holder_of({kind = 'read', owner = owner, session = session}, lease_id)
  if owner ~= '' and drop_ended_reads(lock, own) > 0 then return {'upgrade'} end
  return {'busy', redis.call('pttl', lock), reader}
end

-- Takes a lock that nothing stands against. Returns its holds.
local function take(lock, shared)
  if kind == 'write' and not shared then redis.call('del', lock) end -- readers who have died
  local left = redis.call('pttl', lock)
  if left == -2 and kind ~= 'lock' then redis.call('hset', lock, 'mode', kind) end
  local count = 1
  if owner == '' then
    redis.call('hset', lock, holder, '1')
  else
    count = redis.call('hincrby', lock, holder, 1)
  end
  if kind == 'read' then
    redis.call('set', read_key(lock, holder, count), lease_id, 'px', ttl)
  end
  if tonumber(ttl) > left then redis.call('pexpire', lock, ttl) end
  return count
end

-- A fencing token for each, before anything is taken: this may fail.
local function make_tokens(shared)
  local tokens = {}
  for i, lock in ipairs(wanted.locks) do
    local token, err = shared[i], nil
    if not token then token, err = next_token(counter_of(lock)) end
    if not token then
      return nil, string.find(err.err, 'WRONGTYPE', 1, true) and {'wrong-kind', i} or err
    end
    tokens[i] = token
  end
  return table.concat(tokens, ' ')
end

local function grant(shared)
  local tokens, err = make_tokens(shared)
  if not tokens then return refuse(err) end
  bind(tokens)
  local counts = {}
  for i, lock in ipairs(wanted.locks) do counts[i] = integer(take(lock, shared[i])) end
  stop_waiting()
  return {'granted', tokens, ttl, '', table.concat(counts, ' ')}
end

if old and names_of(old) == '' then return {'ended', old.detail} end
local said = settled()
if said then return said end
local no = objection()
if no then return refuse(no) end

-- Who waits for one lock is told of another one only when that one is free.
local last, in_the_way, shared = tonumber(ARGV[15]), nil, {}
for i, lock in ipairs(wanted.locks) do
  local against, token = (kind == 'lock' and lock_objection or read_write_objection)(lock)
  if against then
    table.insert(against, i)
    if against[1] ~= 'busy' then return refuse(against) end
    if not in_the_way or i == last then in_the_way = against end
  end
  shared[i] = token
end
if not in_the_way then return grant(shared) end
if tonumber(wait) > 0 then stand_in_line() end
return in_the_way
