-- Takes one permit of a semaphore whose permits expire, for one lease, or confirms that this
-- very lease has it, or registers the lease as a waiter.
--
-- KEYS  1 semaphore: free permits   2 zset of permit id -> end in epoch ms   3 lease record
--       4 waiters: zset of lease id -> deadline in epoch ms
--       and for a lease with a session: 5 session   6 its leases   7 what is due
-- ARGV  1 lease id   2 ttl in ms   3 retry window in ms   4 this request's own mark
--       5 "1": the server made the token some time ago: it holds, or it is spent
--       6 ms for which to be registered as a waiter when no permit is free; 0: not
--       7 "1": this request is registered, and leaves when it gets a permit
--       and for a lease with a session: 8 session id   9 "1": the watchdog keeps it
--       10 ms after which something is due for it
--
-- Replies  granted, 0, ttl, "", free permits          | busy, ms until one expires or -1, ""
--          held, 0, remaining ms, record, free permits | ended, reason | reused | wrong-kind
--          session-ended, reason
--
-- The first write of a grant that reclaims nothing is one that fails when memory is short.
-- include counter
-- include lease
-- include permit
-- include session

local semaphore, timeouts, lease, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease_id, ttl, window, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local made, wait, registered = ARGV[5] == '1', ARGV[6], ARGV[7] == '1'
local session = ARGV[8] or ''

local now = epoch_ms()
local old = parse(redis.call('get', lease) or nil)

local function leave(reply)
  if registered then redis.call('zrem', waiters, lease_id) end
  return reply
end

local function new_record(state)
  return {state = state, mark = mark, since = integer(now), ttl = ttl, session = session,
    watchdog = ARGV[9], kind = 'permit', lock = semaphore}
end

local function confirm(left, free)
  if old.mark == mark then return {'granted', 0, left, format(old), free} end
  -- Told that it holds: from here on no request takes it back. PEXPIRE first, see acquire.lua.
  old.mark = ''
  redis.call('pexpire', lease, left + window)
  redis.call('set', lease, format(old), 'keepttl')
  return {'held', 0, left, format(old), free}
end

-- Whatever this lease's record says: a reply, or nothing.
local function answer_of_record(free)
  if not old then return made and {'ended', 'unknown'} or nil end
  local no = mismatch(old, semaphore)
  if no then return no end
  if old.state == 'ended' then return {'ended', old.detail} end
  if old.session ~= session then return {'reused'} end
  if old.state ~= 'held' then return nil end
  local left = permit_left(semaphore, lease_id, now)
  if left then return confirm(left, free) end
  return {'ended', lose(old, lease_id, window)}
end

local function grant(free)
  redis.call('set', lease, format(new_record('held')), 'px', ttl + window)
  redis.call('decrby', semaphore, 1)
  redis.call('zadd', timeouts, integer(now + ttl), permit_id(lease_id))
  local semaphore_left = redis.call('pttl', semaphore)
  if semaphore_left > 0 then redis.call('pexpire', timeouts, semaphore_left) end
  if session ~= '' then
    redis.call('hset', KEYS[6], lease_id, semaphore)
    redis.call('pexpire', KEYS[6], redis.call('pttl', KEYS[5]))
    redis.call('zadd', KEYS[7], integer(now + ARGV[10]), lease_id)
  end
  if old and (old.mark ~= mark or old.detail == 'shared') then
    redis.call('publish', 'rlockd:leases', lease_id .. ' ' .. semaphore)
  end
  if old or registered then redis.call('zrem', waiters, lease_id) end
  return {'granted', 0, tonumber(ttl), '', free - 1}
end

local function stand_in_line()
  local record = new_record('waiting')
  if old and old.state == 'waiting' then
    if old.mark == mark then return end
    -- Of two that waited with this token one has left: a registered one is the other.
    local is_last = registered and old.mark == '' and old.detail ~= mark
    record.detail, record.since = is_last and '' or 'shared', old.since
  end
  local keep = math.max(wait + window, redis.call('pttl', lease))
  redis.call('set', lease, format(record), 'px', integer(keep))
  stand_among(waiters, lease_id, wait, window)
end

local free = read_counter(semaphore)
if free == false then return leave({'wrong-kind'}) end
if session ~= '' then
  local state, reason = session_state(session, now)
  if not state then return leave({'session-ended', reason}) end
end
local said = answer_of_record(free or 0)
if said then return leave(said) end
reclaim(semaphore, timeouts, now)
free = read_counter(semaphore) or 0
if free >= 1 then return grant(free) end
if tonumber(wait) > 0 then stand_in_line() end
local first =
  redis.call('zrangebyscore', timeouts, '-inf', '+inf', 'withscores', 'limit', 0, 1)[2]
local remaining = -1
if first and tonumber(first) < FOR_EVER then remaining = math.max(tonumber(first) - now, 0) end
return {'busy', remaining, ''}
