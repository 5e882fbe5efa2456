-- What the scripts share about leases: what one of each kind holds, how it lasts and ends.
-- include record
-- include permit_lease
-- include read_write
-- include fair

-- A session with more leases is not searched: whoever waits for a lock would pay for it.
local SEARCH_MAX = 200

-- What an owner holds as, as the records of his session's leases tell; nil: they do not.
local function kind_of_owner(lock, session)
  local key = 'rlockd:session-leases:' .. session
  if redis.call('hlen', key) > SEARCH_MAX then return nil end
  local leases = redis.call('hgetall', key)
  for i = 1, #leases, 2 do
    local is_of_it = string.find('\n' .. leases[i + 1] .. '\n', '\n' .. lock .. '\n', 1, true)
    local record = is_of_it and find_record(leases[i])
    if record and record.state == 'held' then return record.kind end
  end
  return nil
end

-- The kind of a lock without a mode, as far as the data tells: a lock and a fair lock look
-- alike in Redis. Nil: a Java client holds it, and nobody waits in a queue.
local function kind_of_holder(lock, field)
  local lease_id = lease_of_holder(field)
  local record = lease_id and find_record(lease_id)
  if record then return record.kind end
  local kind = kind_of_owner(lock, string.match(field, '^[^:]*'))
  if kind then return kind end
  local is_session = lease_id and redis.call('exists', 'rlockd:session:' .. lease_id) == 1
  if lease_id and not is_session then return 'lock' end
  return redis.call('exists', queue_of(lock)) == 1 and 'fair' or nil
end

-- --- one lock of a lease ---------------------------------------------------------------------

-- A holder with an owner may have lost the lock and got it again for another lease: the token
-- tells.
local function is_held(record, lease_id, lock, token)
  if record.kind == 'permit' then return permit_left(lock, lease_id, epoch_ms()) ~= nil end
  local holder = holder_of(record, lease_id)
  if record.kind == 'read' then return find_read(lock, holder, lease_id) ~= nil end
  if redis.pcall('hexists', lock, holder) ~= 1 then return false end
  return record.owner == '' or redis.call('get', counter_of(lock)) == token
end

-- Whoever put another type of key in the lock's place took it away, which is no error: that
-- would stop the watchdog, and so all others' renewals.
local function holds_one(record, lease_id, lock, token)
  local is_lock, does = pcall(is_held, record, lease_id, lock, token)
  return is_lock and does
end

-- Somebody who holds; nil: nobody does.
local function find_holder(lock)
  for _, field in ipairs(redis.call('hrandfield', lock, 2)) do
    if field ~= 'mode' then return field end
  end
  return nil
end

-- One of those who wait may try again: the lock is free, or will be earlier than he knows.
local function wake_next(kind, lock)
  if kind == 'fair' then
    call_head(lock, epoch_ms())
  elseif kind == 'lock' then
    redis.call('publish', companion('redisson_lock__channel', lock), '0')
  else
    redis.call('publish', rw_channel(lock), '0')
  end
end

-- Takes one hold off the lock; the last one frees it and wakes a waiter. Returns the holds
-- left. Its first write is always one that Redis allows when memory is short.
local function take_hold_off(record, lease_id, lock)
  local holder = holder_of(record, lease_id)
  if record.kind == 'permit' then return give_permit_back(lock, lease_id) and 0 or false end
  if record.kind == 'read' then return end_read(lock, holder, lease_id) end
  if record.kind == 'write' then return end_write(lock, holder) end
  local count = tonumber(redis.call('hget', lock, holder) or 0)
  if count > 1 then
    begin_writing(lock)
    return redis.call('hincrby', lock, holder, -1)
  end
  if redis.call('hdel', lock, holder) == 1 then wake_next(record.kind, lock) end
  return 0
end

-- The lock lasts at least `ttl` from now.
local function prolong_one(record, lease_id, lock, ttl)
  if record.kind == 'permit' then
    prolong_permit(lock, lease_id, epoch_ms(), ttl)
  elseif record.kind == 'read' then
    local holder = holder_of(record, lease_id)
    local left = read_left(lock, holder, lease_id)
    if left and left < tonumber(ttl) then prolong_read(lock, holder, lease_id, ttl) end
  elseif redis.call('pttl', lock) < tonumber(ttl) then
    redis.call('pexpire', lock, ttl)
  end
end

-- The lock lasts `ttl` from now; less than before only when nobody else shares it.
local function set_time(record, lease_id, lock, ttl)
  local holder = holder_of(record, lease_id)
  if record.kind == 'read' then return prolong_read(lock, holder, lease_id, ttl) end
  local remaining, time = redis.call('pttl', lock), tonumber(ttl)
  if redis.call('hget', lock, holder) ~= '1' then time = math.max(time, remaining) end
  if record.kind == 'write' then time = math.max(time, (longest_read(lock))) end
  redis.call('pexpire', lock, integer(time))
  -- Waiters sleep as long as they were told that the lock lasts.
  if time < remaining then wake_next(record.kind, lock) end
end

local function left_of_one(record, lease_id, lock)
  if record.kind == 'permit' then return permit_left(lock, lease_id, epoch_ms()) or 0 end
  if record.kind == 'read' then
    return read_left(lock, holder_of(record, lease_id), lease_id) or 0
  end
  return redis.call('pttl', lock)
end

-- --- a lease ---------------------------------------------------------------------------------

local function locks_of(record) return record.locks or {record.lock} end

-- Whether the lease that has this record holds what it was granted, all of it.
local function holds(record, lease_id)
  local tokens = tokens_of(record)
  for i, lock in ipairs(locks_of(record)) do
    if not holds_one(record, lease_id, lock, tokens[i]) then return false end
  end
  return true
end

-- Lets go of what the lease holds, of several locks also when one of them was lost. Returns the
-- holds left; false: it held nothing any more.
local function let_go(record, lease_id)
  local tokens, left = tokens_of(record), false
  for i, lock in ipairs(locks_of(record)) do
    if holds_one(record, lease_id, lock, tokens[i]) then
      left = math.max(left or 0, take_hold_off(record, lease_id, lock))
    end
  end
  return left
end

local function prolong(record, lease_id, ttl)
  for _, lock in ipairs(locks_of(record)) do prolong_one(record, lease_id, lock, ttl) end
end

-- Ms that a lease which holds has left; negative: an operator took the TTL away.
local function time_left(record, lease_id)
  local least = nil
  for _, lock in ipairs(locks_of(record)) do
    local left = left_of_one(record, lease_id, lock)
    if left >= 0 then least = math.min(least or left, left) end
  end
  -- One that the watchdog does not keep may end before the lock that it shares.
  local over = record.session ~= '' and record.watchdog ~= '1' and
    redis.call('zscore', 'rlockd:due', lease_id)
  if not over then return least or -1 end
  over = math.max(0, over - epoch_ms())
  return math.min(least or over, over)
end

-- Writes a record anew, which keeps its time. Its first write is one that Redis allows when
-- memory is short.
local function rewrite(record, lease_id)
  local key = record_key(lease_id)
  redis.call('pexpire', key, redis.call('pttl', key))
  redis.call('set', key, format(record), 'keepttl')
end

-- What was renewed for `ttl` is in the watchdog's care ("1"), due again after `due_in` ms, or
-- ends by itself. Whoever renews it has been told that it holds: the request that was granted
-- must not take it back. Not a script's first write.
local function write_renewed(record, lease_id, ttl, window, watchdog, due_in)
  if record.session ~= '' then
    record.watchdog = watchdog
    local again = watchdog == '1' and due_in or ttl
    redis.call('zadd', 'rlockd:due', integer(epoch_ms() + again), lease_id)
  end
  record.mark, record.ttl = '', ttl
  redis.call('set', record_key(lease_id), format(record), 'px', ttl + window)
end

-- The lease's session has nothing to do with it any more.
local function unbind(record, lease_id)
  if record.session == '' then return end
  redis.call('hdel', 'rlockd:session-leases:' .. record.session, lease_id)
  redis.call('zrem', 'rlockd:due', lease_id)
end

-- The lease is over, and its token is spent for as long as anybody may ask. `left`: the holds
-- that its release left, for the same release again.
local function spend(record, lease_id, reason, window, left)
  unbind(record, lease_id)
  record.state, record.detail, record.mark, record.note = 'ended', reason, '', ''
  record.token = left and tostring(left) or ''
  redis.call('set', record_key(lease_id), format(record), 'px', window)
end

-- Why a lease that was held holds no more. Who was forced out of a lock last is noted: the
-- holder, or `*` for all of a read/write lock, and the token, the newest of them.
local function loss_reason(record, lease_id)
  local tokens = tokens_of(record)
  for i, lock in ipairs(locks_of(record)) do
    local forced = redis.call('get', companion('rlockd:forced', lock)) or ''
    local holder, token = string.match(forced, '^(.*) (%d*)$')
    if holder == holder_of(record, lease_id) and (not tokens[i] or tokens[i] == token) then
      return 'forced'
    end
    local mine, last = tonumber(tokens[i]), tonumber(token)
    if holder == '*' and mine and last and mine <= last then return 'forced' end
  end
  return 'expired'
end

-- A lease was lost, or its time is over: its session hears of it with its next keep-alive, a
-- hanging one at once. What is left of it is let go: some of several locks, or a hold on one
-- that others share.
local function lose(record, lease_id, window)
  local reason, session = loss_reason(record, lease_id), record.session
  if record.kind == 'permit' then
    pcall(give_permit_back, record.lock, lease_id) -- also one that is over, not reclaimed yet
  else
    let_go(record, lease_id)
  end
  for _, lock in ipairs(record.kind == 'read' and locks_of(record) or {}) do
    pcall(leave_readers, lock, holder_of(record, lease_id))
  end
  spend(record, lease_id, reason, window)
  if session ~= '' then
    local lost = 'rlockd:session-lost:' .. session
    redis.call('hset', lost, lease_id,
      reason .. '\n' .. record.kind .. '\n' .. names_of(record))
    local session_left = redis.call('pttl', 'rlockd:session:' .. session)
    redis.call('pexpire', lost, math.max(session_left, tonumber(window)))
    redis.call('publish', 'rlockd:sessions', session)
  end
  return reason
end

-- --- a lease that waits ----------------------------------------------------------------------

-- Takes it out of every line that it stands in; the one behind it is called.
local function leave_line(record, lease_id)
  for _, lock in ipairs(locks_of(record)) do
    redis.call('zrem', companion('rlockd:waiters', lock), lease_id)
    if record.kind == 'fair' then
      redis.call('zrem', 'rlockd:due', lease_id)
      if leave_queue(lock, place_of(lease_id)) and redis.call('exists', lock) == 0 then
        call_head(lock, epoch_ms())
      end
    end
  end
end

-- A place of its own that nobody waits at: for the next request with its token, which has to
-- come soon.
local function keep_place(record, lease_id, window)
  local key = record_key(lease_id)
  redis.call('zrem', companion('rlockd:waiters', record.lock), lease_id)
  record.detail, record.mark = 'place', ''
  local keep = math.max(PLACE_MS + window, redis.call('pttl', key))
  redis.call('set', key, format(record), 'px', integer(keep))
  redis.call('zadd', 'rlockd:due', epoch_ms() + PLACE_MS, lease_id)
end

-- Takes back that one request waits with this lease's token: the last one takes the place
-- in line with it, unless the place is kept for the next one (`window`: the retry window).
local function stop_waiting_with(record, lease_id, mark, window)
  if record.detail == 'shared' then
    -- The other one waits on. Who has left is noted, for he may be withdrawn a second time.
    record.detail, record.mark = mark, ''
    rewrite(record, lease_id)
  elseif record.mark == mark or
    (record.mark == '' and record.detail ~= mark and record.detail ~= 'place') then
    if window then
      keep_place(record, lease_id, window)
    else
      leave_line(record, lease_id)
      redis.call('del', record_key(lease_id))
    end
  end
end
