-- The watchdog's round, on whichever front end comes first: ends sessions whose time is over,
-- renews leases that are due, and notices those that are over, and places in the queues of fair
-- locks that nobody asks for. What was lost is not made anew.
--
-- KEYS  1 all sessions   2 what is due
-- ARGV  1 watchdog timeout in ms   2 ms after which a renewed lease is due again
--       3 retry window in ms   4 how many leases, or locks of them, to deal with
--       5 ms since the caller could not ask
--
-- Reply  leases renewed, leases lost, sessions ended, 1: there is more to do now,
--        ms by which the latest renewal was late
-- include lease
-- include session

local sessions, due = KEYS[1], KEYS[2]
local timeout, again = tonumber(ARGV[1]), tonumber(ARGV[2])
local window, batch = ARGV[3], tonumber(ARGV[4])

local now = epoch_ms()
local renewed, lost, ended, late = 0, 0, 0, 0

local function end_session(session)
  local _, reason = session_state(session, now)
  if end_some(session, reason or 'expired', now, math.floor(batch / 4), window) == 0 then
    ended = ended + 1
  end
end

-- A session or a lease that cannot be dealt with, since somebody put something else in place of
-- its keys, does not hold up the others.
for _, session in ipairs(redis.call('zrangebyscore', sessions, '-inf', now, 'limit', 0, 4)) do
  if not pcall(end_session, session) then
    redis.call('zadd', sessions, integer(now + again), session)
  end
end

local alive = {}
local function is_alive(session)
  if alive[session] == nil then alive[session] = session_state(session, now) == 'open' end
  return alive[session]
end

local function renew(record, lease_id, score)
  redis.call('pexpire', record_key(lease_id), timeout + window)
  prolong(record, lease_id, timeout)
  redis.call('zadd', due, now + again + (score % 97) * again / 970, lease_id)
  renewed, late = renewed + 1, math.max(late, now - score)
end

-- Nobody has asked for its place for too long; unless nobody could.
local function end_place(record, lease_id)
  if tonumber(ARGV[5]) < PLACE_MS then
    redis.call('pexpire', record_key(lease_id), PLACE_MS + window)
    redis.call('zadd', due, now + PLACE_MS, lease_id)
  else
    leave_line(record, lease_id)
    redis.call('del', record_key(lease_id))
  end
end

local function end_lease(record, lease_id)
  lose(record, lease_id, window)
  lost = lost + 1
end

local function tend(record, lease_id, score)
  if record and record.state == 'waiting' and record.kind == 'fair' then
    end_place(record, lease_id)
  elseif not record or record.state ~= 'held' or record.session == '' then
    redis.call('zrem', due, lease_id)
  elseif not is_alive(record.session) then
    -- Its session's end releases it; where nothing is left of the session, this does.
    if redis.call('exists', 'rlockd:session:' .. record.session) == 0 then
      end_lease(record, lease_id)
    else
      redis.call('zadd', due, now + again, lease_id)
    end
  elseif record.watchdog ~= '1' then
    end_lease(record, lease_id)
  elseif holds(record, lease_id) then
    renew(record, lease_id, score)
  else
    end_lease(record, lease_id)
  end
end

local found = redis.call('zrangebyscore', due, '-inf', now, 'withscores', 'limit', 0, batch)
local work, dealt_with = 0, 0
for i = 1, #found, 2 do
  if work >= batch then break end -- a lease may be of many locks
  local lease_id, score = found[i], tonumber(found[i + 1])
  local record = find_record(lease_id)
  if not pcall(tend, record, lease_id, score) then
    redis.call('zadd', due, now + again, lease_id)
  end
  work, dealt_with = work + (record and #locks_of(record) or 1), dealt_with + 1
end

local more = #found / 2 == batch or dealt_with < #found / 2 or
  #redis.call('zrangebyscore', sessions, '-inf', now, 'limit', 0, 1) > 0
return {renewed, lost, ended, more and 1 or 0, late}
