-- What the scripts that acquire share: one request for a lease, what its record says to it, and
-- how it is granted or waits. Before it stands what is wanted, `wanted`: its `lock`, or its
-- `locks`.
--
-- ARGV  1 lease id   2 ttl in ms   3 the record of a lease that is granted at once, without a
--       session   4 ms for which that is kept: ttl and retry window
--       5 ms for which to be registered as a waiter when the lock is busy; 0 or none: not; -1:
--         not, and nobody has the token to ask again
--       and where it is not the common case:
--       6 mode: "new"    the server made the token just now: no record exists or is made
--               "record" the lease has a record: the common case
--               "made"   a token of the server's own came back: it holds, or it is spent
--       7 "1": this request is registered, and leaves when it gets the lock
--       8 for a lease with a session: ms after which something is due for it
-- include lease
-- include session

local lease_id, ttl, window, wait = ARGV[1], ARGV[2], ARGV[4] - ARGV[2], ARGV[5] or '0'
local mode, registered = ARGV[6] or 'record', ARGV[7] == '1'
local asked = parse(ARGV[3])
local mark, kind, owner, session = asked.mark, asked.kind, asked.owner, asked.session

local lease = record_key(lease_id)
local old = parse(redis.call('get', lease) or nil)

local function new_record(state, token)
  return {state = state, mark = mark, ttl = ttl, note = asked.note, session = session,
    token = token, watchdog = asked.watchdog, kind = kind, owner = owner, lock = wanted.lock,
    locks = wanted.locks}
end

local wish = new_record('waiting')
local holder = holder_of(wish, lease_id)

local function is_same_lock(record) return names_of(record) == names_of(wanted) end

local function refuse(reply)
  if registered then leave_line(wish, lease_id) end
  return reply
end

-- Whatever this lease's record says against a grant: a reply, or nothing.
local function objection()
  if not old then
    if mode == 'made' then return {'ended', 'unknown'} end
    return nil
  end
  if not is_same_lock(old) then return {'reused'} end
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

-- `tokens` and `counts`: of its locks, one each, a blank between.
local function confirm(tokens, counts, left)
  if not old then return {mode == 'new' and 'granted' or 'held', tokens, left, '', counts} end
  if old.mark == mark then return {'granted', tokens, left, format(old), counts} end
  -- Told that it holds: from here on no request takes it back, neither the one that was granted
  -- nor this one. PEXPIRE first: a script whose first write is allowed may go on when memory is
  -- short.
  old.mark = ''
  redis.call('pexpire', lease, math.max(left, 0) + window)
  redis.call('set', lease, format(old), 'keepttl')
  return {'held', tokens, left, format(old), counts}
end

-- The same of a lease with a record.
local function confirm_record()
  local known, tokens, counts = tokens_of(old), {}, {}
  for i, lock in ipairs(locks_of(old)) do
    tokens[i] = known[i] or redis.call('get', counter_of(lock)) or '0'
    counts[i] = redis.call('hget', lock, holder_of(old, lease_id)) or '0'
  end
  return confirm(table.concat(tokens, ' '), table.concat(counts, ' '), time_left(old, lease_id))
end

-- What the lease's record and its session say before the lock is looked at: a reply, or
-- nothing. Then it is not held by this lease, unless it has no record.
local function settled()
  local is_same = old and is_same_lock(old)
  if is_same and old.state == 'held' and session == '' and old.session ~= '' then
    -- A lease is confirmed by its token alone: whose it is stands in its record.
    local ended = session_objection(old.session)
    if ended then return ended end
    if not holds(old, lease_id) then return {'ended', lose(old, lease_id, window)} end
    return confirm_record()
  end
  if is_same and old.state ~= 'ended' and
    (old.kind ~= kind or old.owner ~= owner or old.session ~= session) then
    return refuse({'reused'})
  end
  local dead = session_objection(session)
  if dead then return refuse(dead) end
  if is_same and old.state == 'held' and holds(old, lease_id) then
    return refuse(confirm_record())
  end
  return nil
end

-- Writes the record of a lease that has just been granted, and binds it to its session.
local function bind(tokens)
  local record = new_record('held', tokens)
  if session ~= '' then
    local now = epoch_ms()
    local leases = 'rlockd:session-leases:' .. session
    record.since = integer(now)
    redis.call('hset', leases, lease_id, names_of(wanted))
    redis.call('pexpire', leases, redis.call('pttl', 'rlockd:session:' .. session))
    redis.call('zadd', 'rlockd:due', now + ARGV[8], lease_id)
  end
  redis.call('set', lease, format(record), 'px', ttl + window)
end

-- Its turn has come: it waits no more, and neither do others with the same token. And others of
-- its owner may come in now, too: one turn is for one waiter, whoever it is.
local function stop_waiting()
  local is_crowded = false
  for _, lock in ipairs(locks_of(wanted)) do
    local waiters = companion('rlockd:waiters', lock)
    if old or registered then redis.call('zrem', waiters, lease_id) end
    is_crowded = is_crowded or (owner ~= '' and redis.call('zcard', waiters) > 0)
    if old and old.state == 'waiting' and (old.mark ~= mark or old.detail == 'shared') then
      redis.call('publish', 'rlockd:leases', lease_id .. ' ' .. lock)
    end
  end
  if is_crowded then redis.call('publish', 'rlockd:sessions', session) end
end

-- Registers the lease as a waiter for `wait` from now on.
local function stand_in_line()
  local now = epoch_ms()
  local record = new_record('waiting')
  record.since = integer(now)
  if old and old.state == 'waiting' then
    if old.mark == mark then return end
    -- Of two that waited with this token one has left: a registered one is the other.
    local is_last = old.detail == 'place' or
      (registered and old.mark == '' and old.detail ~= mark)
    record.detail, record.since = is_last and '' or 'shared', old.since
  end
  -- Of two requests with one token the more patient one decides. A place in a queue may last
  -- beyond the request, and its record has to last as long.
  local place = kind == 'fair' and PLACE_MS or 0
  local keep = math.max(wait + place + window, redis.call('pttl', lease))
  redis.call('set', lease, format(record), 'px', integer(keep))
  for _, lock in ipairs(locks_of(wanted)) do
    local waiters = companion('rlockd:waiters', lock)
    redis.call('zremrangebyscore', waiters, '-inf', now)
    redis.call('zadd', waiters, 'gt', now + wait, lease_id)
    if redis.call('pttl', waiters) < wait + window then
      redis.call('pexpire', waiters, wait + window)
    end
  end
end
