-- Acquires a plain lock for one lease, or confirms that this very lease holds it, or registers
-- the lease as a waiter.
--
-- KEYS  1 lock: hash of holder -> holds; its TTL is the lease
--       2 fencing counter   3 the queue of a fair lock of that name
-- ARGV  those of lib/request.lua
--
-- Replies  token: granted as asked for, with one hold; the common case
--          granted, token, ttl, "", holds         | busy, remaining ms, holder
--          held, token, remaining ms, record, holds | ended, reason | reused | wrong-kind
--          session-ended, reason
--
-- Uncontended and without a session: 6 commands, 5 in mode "new". The first write is one that
-- fails when memory is short, so a grant is never half made.
-- include token
local lock, counter = KEYS[1], KEYS[2]

-- The common case first, before anything is prepared for the others. What it returns or hands
-- to Redis is text that is there already: a table costs Redis as much as two commands, and each
-- argument a third of one.
if not ARGV[7] and ARGV[6] ~= 'made' and redis.call('exists', lock, KEYS[3]) == 0 then
  local lease = 'rlockd:lease:' .. ARGV[1]
  if ARGV[6] == 'new' or redis.call('set', lease, ARGV[3], 'nx', 'px', ARGV[4]) then
    local token, err = next_token(counter)
    if not token then -- another type of key: nothing is granted
      redis.call('del', lease)
      return err
    end
    redis.call('hset', lock, ARGV[1] .. ':0', '1')
    redis.call('pexpire', lock, ARGV[2])
    return token
  end
end

local wanted = {lock = lock}
-- include request

local function grant()
  local token, err = next_token(counter)
  if not token then
    redis.call('del', lease)
    return refuse(err)
  end
  redis.call('hset', lock, holder, '1')
  redis.call('pexpire', lock, ttl)
  if session ~= '' then bind(token) end
  stop_waiting()
  return {'granted', token, ttl, '', 1}
end

-- Another lease of the same owner: they share the lock and its token.
local function reenter(remaining)
  local token = redis.call('get', counter) or '0'
  local count = redis.call('hincrby', lock, holder, 1)
  if tonumber(ttl) > remaining then redis.call('pexpire', lock, ttl) end
  bind(token)
  stop_waiting()
  return {'granted', token, ttl, '', count}
end

local said = settled()
if said then return said end

local remaining = redis.call('pttl', lock)
if remaining == -2 then
  local no = objection()
  if no then return refuse(no) end
  if redis.call('exists', KEYS[3]) == 1 then return refuse({'wrong-kind'}) end
  if session == '' then bind() end
  return grant()
end

local holders = redis.pcall('hrandfield', lock, 2, 'withvalues')
if holders.err then return refuse(holders) end
if #holders ~= 2 or kind_of_holder(lock, holders[1]) == 'fair' or not is_holder(holders[1]) then
  return refuse({'wrong-kind'})
end
if holders[1] == holder and not old and owner == '' then -- the server made the token
  return refuse(confirm(redis.call('get', counter) or '0', holders[2], remaining))
end
local no = objection()
if no then return refuse(no) end
if holders[1] == holder then return reenter(remaining) end
if tonumber(wait) > 0 then stand_in_line() end
return {'busy', remaining, holders[1]}
