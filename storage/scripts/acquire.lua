-- Acquires a plain lock for one lease, or confirms that this very lease holds it, or registers
-- the lease as a waiter.
--
-- KEYS  1 lock: hash of holder -> holds; its TTL is the lease
--       2 fencing counter   3 lease record   4 the queue of a fair lock of that name
-- ARGV  those of lib/request.lua
--
-- Replies  granted, token, ttl, "", holds         | busy, remaining ms, holder
--          held, token, remaining ms, record, holds | ended, reason | reused | wrong-kind
--          session-ended, reason
--
-- Uncontended and without a session: 6 commands, 5 in mode "new". The first write is one that
-- fails when memory is short, so a grant is never half made.
-- include token
local lock, counter, lease = KEYS[1], KEYS[2], KEYS[3]

local function grant(holder)
  local ttl = ARGV[2]
  local token, err = next_token(counter)
  if not token then -- another type of key: nothing is granted
    redis.call('del', lease)
    return err
  end
  redis.call('hset', lock, holder, '1')
  redis.call('pexpire', lock, ttl)
  return {'granted', token, ttl, '', 1}
end

-- The common case first, before anything is prepared for the others.
if not ARGV[11] and ARGV[8] == '0' and redis.call('exists', lock, KEYS[4]) == 0 then
  local ttl, mode = ARGV[2], ARGV[6]
  if mode == 'new' then return grant(ARGV[1] .. ':0') end
  if mode == 'record' then
    local record = 'held\n\n' .. ARGV[4] .. '\n\n' .. ttl .. '\n' .. ARGV[5] ..
      '\n\n\n\nlock\n\n' .. lock
    if redis.call('set', lease, record, 'nx', 'px', ttl + ARGV[3]) then
      return grant(ARGV[1] .. ':0')
    end
  end
end

local wanted = {lock = lock}
-- include request

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
  if redis.call('exists', KEYS[4]) == 1 then return refuse({'wrong-kind'}) end
  if session == '' then bind() end
  local granted = grant(holder)
  if granted.err then return refuse(granted) end
  if session ~= '' then bind(granted[2]) end
  stop_waiting()
  return granted
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
