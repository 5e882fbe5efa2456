-- Acquires several locks of one kind for one lease, all of them or none, or confirms that this
-- very lease holds them, or registers the lease as a waiter for each.
--
-- KEYS  1 lease record
-- ARGV  those of lib/request.lua, all of them   9 the locks, each after a newline, in the
--       order of their names   10 the number of the one that was in the way last; 0: none
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
for lock in string.gmatch(ARGV[9], '[^\n]+') do table.insert(wanted.locks, lock) end
-- include read_write_request

-- The same as read_write_objection() says, of a lock of kind "lock".
local function lock_objection(lock)
  local remaining = redis.call('pttl', lock)
  if remaining == -2 then
    return redis.call('exists', queue_of(lock)) == 1 and {'wrong-kind'} or nil, {}
  end
  local fields = redis.pcall('hrandfield', lock, 2)
  local found = not fields.err and #fields == 1 and is_holder(fields[1])
  if not found or kind_of_holder(lock, fields[1]) == 'fair' then return {'wrong-kind'} end
  if fields[1] ~= holder then return {'busy', remaining, fields[1]} end
  return nil, {token = redis.call('get', counter_of(lock)) or '0'}
end

-- Takes a lock that nothing stands against. Returns its holds.
local function take(lock, there)
  if kind ~= 'lock' then return take_read_write(lock, there) end
  local left = redis.call('pttl', lock)
  local count = redis.call('hincrby', lock, holder, 1)
  if tonumber(ttl) > left then redis.call('pexpire', lock, ttl) end
  return count
end

-- A fencing token for each, before anything is taken: this may fail.
local function make_tokens(there)
  local tokens = {}
  for i, lock in ipairs(wanted.locks) do
    local token, err = there[i].token, nil
    if not token then token, err = next_token(counter_of(lock)) end
    if not token then
      return nil, string.find(err.err, 'WRONGTYPE', 1, true) and {'wrong-kind', i} or err
    end
    tokens[i] = token
  end
  return table.concat(tokens, ' ')
end

local function grant(there)
  local tokens, err = make_tokens(there)
  if not tokens then return refuse(err) end
  bind(tokens)
  local counts = {}
  for i, lock in ipairs(wanted.locks) do counts[i] = integer(take(lock, there[i])) end
  stop_waiting()
  return {'granted', tokens, ttl, '', table.concat(counts, ' ')}
end

if old and names_of(old) == '' then return {'ended', old.detail} end
local said = settled()
if said then return said end
local no = objection()
if no then return refuse(no) end

-- Who waits for one lock is told of another one only when that one is free.
local last, in_the_way, there = tonumber(ARGV[10]), nil, {}
for i, lock in ipairs(wanted.locks) do
  local against, found = (kind == 'lock' and lock_objection or read_write_objection)(lock)
  if against then
    table.insert(against, i)
    if against[1] ~= 'busy' then return refuse(against) end
    if not in_the_way or i == last then in_the_way = against end
  end
  there[i] = found
end
if not in_the_way then return grant(there) end
if tonumber(wait) > 0 then stand_in_line() end
return in_the_way
