-- Acquires a plain lock for one lease, or confirms that this very lease holds it, or registers
-- the lease as a waiter.
--
-- KEYS  1 lock: hash of holder -> holds; its TTL is the lease
--       2 fencing counter   3 lease record
--       4 waiters: zset of lease id -> deadline in epoch ms
--       and for a lease with a session: 5 session   6 its leases   7 what is due
-- ARGV  1 holder   2 lease id   3 ttl in ms   4 retry window in ms   5 this request's own mark
--       6 note
--       7 mode: "new"    the server made the token just now: no record exists or is made
--               "record" the lease has a record
--               "made"   a token of the server's own came back: it holds, or it is spent
--       8 ms for which to be registered as a waiter when the lock is busy; 0: not
--       9 "1": this request is registered, and leaves when it gets the lock
--       10 kind   and for a lease with a session: 11 owner or ""   12 session id
--       13 "1": the watchdog keeps it   14 ms after which something is due for it
--
-- Replies  granted, token, ttl, "", holds         | busy, remaining ms, holder
--          held, token, remaining ms, record, holds | ended, reason | reused | wrong-kind
--          session-ended, reason
--
-- Uncontended and without a session: 6 commands, 5 in mode "new". The first write is one that
-- fails when memory is short, so a grant is never half made.
local lock, counter, lease, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local holder, lease_id, ttl, window, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local note, mode, wait, registered, kind = ARGV[6], ARGV[7], ARGV[8], ARGV[9] == '1', ARGV[10]
local owner, session = ARGV[11] or '', ARGV[12] or ''

-- The token stays text: to print a Lua number and to read it costs more than a redis.call.
local function grant()
  local time = redis.call('time')
  local token = time[1] .. string.sub('00000' .. time[2], -6)
  local last = redis.pcall('set', counter, token, 'get')
  if type(last) == 'table' and last.err then -- another type of key: nothing is granted
    redis.call('del', lease)
    return last
  end
  if last and (tonumber(last) or 0) >= tonumber(token) then
    token = string.format('%.0f', tonumber(last) + 1)
    redis.call('set', counter, token)
  end
  redis.call('hset', lock, holder, '1')
  redis.call('pexpire', lock, ttl)
  return {'granted', token, ttl, '', 1}
end

local remaining = redis.call('pttl', lock)

-- The common case first, before anything is prepared for the others.
if remaining == -2 and session == '' and not registered then
  if mode == 'new' then return grant() end
  if mode == 'record' then
    local record = 'held\n\n' .. mark .. '\n\n' .. ttl .. '\n' .. note .. '\n\n\n\n' .. kind ..
      '\n\n' .. lock
    if redis.call('set', lease, record, 'nx', 'px', ttl + window) then return grant() end
  end
end

-- include lease
-- include session

local old = parse(redis.call('get', lease) or nil)

local function new_record(state, token)
  return {state = state, mark = mark, ttl = ttl, note = note, session = session, token = token,
    watchdog = ARGV[13], kind = kind, owner = owner, lock = lock}
end

-- Whatever this lease's record says against a grant: a reply, or nothing.
local function objection()
  if not old then
    if mode == 'made' then return {'ended', 'unknown'} end
    return nil
  end
  if old.lock ~= lock then return {'reused'} end
  if old.state == 'ended' then return {'ended', old.detail} end
  if old.state == 'held' then return {'ended', lose(old, lease_id, window)} end
  return nil
end

-- Nobody is granted a lock for a session that has ended, however long ago he asked.
local function session_objection(id)
  if id == '' then return nil end
  local state, reason = session_state(id, epoch_ms())
  if not state then return {'session-ended', reason} end
  return nil
end

-- Writes the record of a lease that has just been granted, and binds it to its session.
local function bind(token)
  local record = new_record('held', token and integer(token))
  if session ~= '' then
    local now = epoch_ms()
    record.since = integer(now)
    redis.call('hset', KEYS[6], lease_id, lock)
    redis.call('pexpire', KEYS[6], redis.call('pttl', KEYS[5]))
    redis.call('zadd', KEYS[7], now + ARGV[14], lease_id)
  end
  redis.call('set', lease, format(record), 'px', ttl + window)
end

-- Others of this owner may come in now, too: one turn is for one waiter, whoever it is.
local function call_in_owner()
  if owner ~= '' and redis.call('zcard', waiters) > 0 then
    redis.call('publish', 'rlockd:sessions', session)
  end
end

-- Its turn has come: it waits no more, and neither do others with the same token.
local function stop_waiting()
  if not old and not registered then return end
  redis.call('zrem', waiters, lease_id)
  if old and old.state == 'waiting' and (old.mark ~= mark or old.detail == 'shared') then
    redis.call('publish', 'rlockd:leases', lease_id .. ' ' .. lock)
  end
end

-- What is left of this lease, which may be less than of the lock that it shares with others.
local function lease_remaining()
  if old.session == '' or old.watchdog == '1' then return remaining end
  local over = redis.call('zscore', 'rlockd:due', lease_id)
  return over and math.max(0, math.min(remaining, over - epoch_ms())) or remaining
end

local function confirm(count)
  local token = tonumber(redis.call('get', counter) or 0)
  if not old then
    return {mode == 'new' and 'granted' or 'held', token, remaining, '', count}
  end
  local left = lease_remaining()
  if old.mark == mark then return {'granted', token, left, format(old), count} end
  -- Told that it holds: from here on no request takes it back, neither the one that was granted
  -- nor this one. PEXPIRE first: a script whose first write is allowed may go on when memory is
  -- short.
  old.mark = ''
  redis.call('pexpire', lease, remaining + window)
  redis.call('set', lease, format(old), 'keepttl')
  return {'held', token, left, format(old), count}
end

-- Another lease of the same owner: they share the lock and its token.
local function reenter()
  local token = tonumber(redis.call('get', counter) or 0)
  local count = redis.call('hincrby', lock, holder, 1)
  if tonumber(ttl) > remaining then redis.call('pexpire', lock, ttl) end
  bind(token)
  stop_waiting()
  call_in_owner()
  return {'granted', token, tonumber(ttl), '', count}
end

local function stand_in_line()
  local now = epoch_ms()
  local record = new_record('waiting')
  record.since = integer(now)
  if old and old.state == 'waiting' then
    if old.mark == mark then return end
    -- Of two that waited with this token one has left: a registered one is the other.
    local is_last = registered and old.mark == '' and old.detail ~= mark
    record.detail, record.since = is_last and '' or 'shared', old.since
  end
  -- Of two requests with one token the more patient one decides.
  local keep = math.max(wait + window, redis.call('pttl', lease))
  redis.call('set', lease, format(record), 'px', keep)
  redis.call('zremrangebyscore', waiters, '-inf', now)
  redis.call('zadd', waiters, 'gt', now + wait, lease_id)
  if redis.call('pttl', waiters) < wait + window then
    redis.call('pexpire', waiters, wait + window)
  end
end

local function refuse(reply)
  if registered then redis.call('zrem', waiters, lease_id) end
  return reply
end

if old and old.state == 'held' and old.lock == lock and session == '' and old.session ~= '' then
  -- A lease is confirmed by its token alone: whose it is stands in its record.
  local ended = session_objection(old.session)
  if ended then return ended end
  if not holds(old, lease_id) then return {'ended', lose(old, lease_id, window)} end
  return confirm(tonumber(redis.call('hget', lock, holder_of(old, lease_id))))
end
if old and old.state ~= 'ended' and old.lock == lock and
  (old.kind ~= kind or old.owner ~= owner or old.session ~= session) then
  return refuse({'reused'})
end
local dead = session_objection(session)
if dead then return refuse(dead) end

if remaining == -2 then
  local no = objection()
  if no then return refuse(no) end
  if session == '' then bind() end
  local granted = grant()
  if granted.err then return refuse(granted) end
  if session ~= '' then bind(granted[2]) end
  stop_waiting()
  call_in_owner()
  return granted
end

local holders = redis.pcall('hrandfield', lock, 2, 'withvalues')
if holders.err then return holders end
if #holders ~= 2 or not string.find(holders[1], '^%x+%-%x+%-%x+%-%x+%-%x+:') then
  return {'wrong-kind'}
end
if holders[1] == holder then
  local count = tonumber(holders[2])
  if owner == '' then return refuse(confirm(count)) end
  if old and old.state == 'held' and old.lock == lock and holds(old, lease_id) then
    return refuse(confirm(count))
  end
end
local no = objection()
if no then return refuse(no) end
if holders[1] == holder then return reenter() end
if tonumber(wait) > 0 then stand_in_line() end
return {'busy', remaining, holders[1]}
