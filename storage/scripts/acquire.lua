-- Acquires a plain lock for one lease, or confirms that this very lease holds it, or registers
-- the lease as a waiter.
--
-- KEYS  1 lock: hash of holder -> holds; its TTL is the lease
--       2 fencing counter   3 lease record
--       4 waiters: zset of lease id -> deadline in epoch ms
--       5 holder that was forced out last
-- ARGV  1 holder   2 lease id   3 ttl in ms   4 retry window in ms   5 this request's own mark
--       6 identity: "\n<kind>\n<owner>\n<name>", the end of the record   7 note
--       8 mode: "new"    the server made the token just now: no record exists or is made
--               "record" the lease has a record (see the README)
--               "made"   a token of the server's own came back: it holds, or it is spent
--       9 ms for which to be registered as a waiter when the lock is busy; 0: not
--       10 "1": this request is registered, and leaves when it gets the lock or stops waiting
--
-- Replies  granted, token, ttl        | held, token, remaining ms, record (or "")
--          busy, remaining ms, holder | ended, reason | reused | wrong-kind
--
-- Uncontended: 6 commands, 5 in mode "new". The first write is one that fails when memory is
-- short, so a grant is never half made.
local lock, counter, lease, waiters, forced = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local holder, lease_id, ttl, window, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local identity, note, mode, wait = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local registered = ARGV[10] == '1'

local function record(state, detail, since)
  return table.concat({state, detail, mark, since, ttl, note}, '\n') .. identity
end

local function now_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Whatever this lease's record says against a grant: a reply, or nothing.
local function objection(old)
  if not old then
    if mode == 'made' then return {'ended', 'unknown'} end
    return nil
  end
  if string.sub(old, -#identity) ~= identity then return {'reused'} end
  local state, detail = string.match(old, '^([^\n]*)\n([^\n]*)\n')
  if state == 'ended' then return {'ended', detail} end
  if state == 'held' then
    local reason = redis.call('get', forced) == holder and 'forced' or 'expired'
    redis.call('set', lease, 'ended\n' .. reason .. '\n\n\n\n' .. identity, 'px', window)
    return {'ended', reason}
  end
  return nil
end

local function grant()
  local time = redis.call('time')
  local token = time[1] * 1000000 + time[2]
  local last = redis.call('set', counter, string.format('%.0f', token), 'get')
  if last and (tonumber(last) or 0) >= token then
    token = tonumber(last) + 1
    redis.call('set', counter, string.format('%.0f', token))
  end
  redis.call('hset', lock, holder, '1')
  redis.call('pexpire', lock, ttl)
  return {'granted', token, tonumber(ttl)}
end

local function confirm(remaining)
  local values = redis.call('mget', counter, lease)
  local old = values[2]
  if not old then
    return {mode == 'new' and 'granted' or 'held', tonumber(values[1] or 0), remaining, ''}
  end
  local state, detail, granted_by, rest =
    string.match(old, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  if granted_by == mark then return {'granted', tonumber(values[1] or 0), remaining, old} end
  -- Told that it holds: from here on the request that was granted must not take it back.
  -- PEXPIRE first: a script whose first write is allowed may go on when memory is short.
  redis.call('pexpire', lease, remaining + window)
  redis.call('set', lease, table.concat({state, detail, mark, rest}, '\n'), 'keepttl')
  return {'held', tonumber(values[1] or 0), remaining, old}
end

local function stand_in_line(old)
  local deadline = now_ms() + wait
  local state, detail, granted_by, since
  if old then
    state, detail, granted_by, since =
      string.match(old, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n')
  end
  if state == 'waiting' and granted_by == mark then return end
  if state == 'waiting' then detail = 'shared' end -- another request waits with this token, too
  redis.call('set', lease, record('waiting', detail or '', since or deadline - wait),
             'px', wait + window)
  redis.call('zadd', waiters, deadline, lease_id)
  redis.call('pexpire', waiters, wait + window)
end

local function leave()
  redis.call('zrem', waiters, lease_id)
end

local remaining = redis.call('pttl', lock)

if remaining == -2 then
  if mode == 'new' and not registered then return grant() end
  if mode == 'record' and not registered then
    if redis.call('set', lease, record('held', '', ''), 'nx', 'px', ttl + window) then
      return grant()
    end
  end
  local old = redis.call('get', lease)
  local no = objection(old)
  if no then
    if registered then leave() end
    return no
  end
  redis.call('set', lease, record('held', '', ''), 'px', ttl + window)
  if registered or old then leave() end
  local granted = grant()
  if old and not string.find(old, '^waiting\n\n' .. mark .. '\n') then
    -- Another request waits with this token: it holds now, too.
    redis.call('publish', 'rlockd:leases', lease_id .. ' ' .. lock)
  end
  return granted
end

local holders = redis.pcall('hrandfield', lock, 2)
if holders.err then return holders end
if #holders ~= 1 or not string.find(holders[1], '^%x+%-%x+%-%x+%-%x+%-%x+:') then
  return {'wrong-kind'}
end
if holders[1] == holder then
  if registered then leave() end
  return confirm(remaining)
end

local old = (mode ~= 'new' or registered) and redis.call('get', lease)
local no = objection(old)
if no then
  if registered then leave() end
  return no
end
if tonumber(wait) > 0 then
  stand_in_line(old)
elseif registered and old and string.find(old, '^waiting\n\n' .. mark .. '\n') then
  leave()
  redis.call('del', lease)
end
return {'busy', remaining, holders[1]}
