-- What the scripts share about leases. embed.sh puts it where a script says `-- include lease`.
-- Keys that only the data names are made here; they are on the same server as everything else.
--
-- A lease's record, `rlockd:lease:<lease id>`, is a string of these lines:
local LINES = {
  'state',    -- waiting, held or ended
  'detail',   -- why it ended; "shared": two requests wait with the token; the mark of one that
              -- left the other waiting
  'mark',     -- the request that was granted; empty once another was told that it holds
  'since',    -- epoch ms when it began to wait, or was granted for a session
  'ttl',      -- ms that the lease was acquired or renewed for
  'note',
  'session',  -- session id; empty: none
  'token',    -- fencing token of a lease with a session; of a released one the holds left
  'watchdog', -- "1": renewed while its session lives
  'kind', 'owner',
  'lock'      -- the name of the lock's hash
}

local function parse(text)
  if not text then return nil end
  local record, line = {}, 0
  for value in string.gmatch(text .. '\n', '([^\n]*)\n') do
    line = line + 1
    record[LINES[line]] = value
  end
  return record
end

local function format(record)
  local values = {}
  for line, name in ipairs(LINES) do values[line] = record[name] or '' end
  return table.concat(values, '\n')
end

local function record_key(lease_id) return 'rlockd:lease:' .. lease_id end

-- Redisson's rule for the names of a lock's companions.
local function companion(prefix, lock)
  if string.find(lock, '{', 1, true) then return prefix .. ':' .. lock end
  return prefix .. ':{' .. lock .. '}'
end

local function holder_of(record, lease_id)
  if record.owner ~= '' then return record.session .. ':' .. record.owner end
  return lease_id .. ':0'
end

local function integer(number) return string.format('%.0f', number) end

local function epoch_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Permits of a semaphore are leases of kind "permit": their `lock` is the semaphore, a number
-- of free permits, and beside it stands a zset of permit id -> end in epoch ms. Redisson's rule
-- for its name:
local function timeouts_of(semaphore)
  if string.find(semaphore, '{', 1, true) then return semaphore .. ':timeout' end
  return '{' .. semaphore .. '}:timeout'
end

-- Redisson's permit id is 16 bytes: those of the lease id.
local function permit_id(lease_id)
  local hex = string.gsub(lease_id, '%-', '')
  return (string.gsub(hex, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end

-- Makes permits free again and wakes waiters. Not a script's first write: Redis refuses it when
-- memory is short.
local function put_back(semaphore, count)
  local total = redis.call('incrby', semaphore, count)
  if total > 0 then
    redis.call('publish', companion('redisson_sc', semaphore), integer(total))
  end
end

-- False: somebody took it back already.
local function give_permit_back(semaphore, lease_id)
  if redis.call('zrem', timeouts_of(semaphore), permit_id(lease_id)) == 0 then return false end
  put_back(semaphore, 1)
  return true
end

-- Ms until a permit ends; nil: it is held no more.
local function permit_left(semaphore, lease_id, now)
  local ends = redis.call('zscore', timeouts_of(semaphore), permit_id(lease_id))
  if not ends or tonumber(ends) <= now then return nil end
  return tonumber(ends) - now
end

-- A permit lasts `ttl` from now. Not a script's first write, either.
local function prolong_permit(semaphore, lease_id, now, ttl)
  redis.call('zadd', timeouts_of(semaphore), 'xx', integer(now + ttl), permit_id(lease_id))
end

-- Whether the lease that has this record holds its lock now. A holder with an owner may have
-- lost the lock and got it again for another lease: the token tells.
local function holds(record, lease_id)
  if record.kind == 'permit' then
    return permit_left(record.lock, lease_id, epoch_ms()) ~= nil
  end
  if redis.call('hexists', record.lock, holder_of(record, lease_id)) == 0 then return false end
  return record.owner == '' or
    redis.call('get', companion('redisson_lock_token', record.lock)) == record.token
end

-- Takes one hold off the lock; the last one frees it and wakes a waiter. Returns the holds
-- left. Its first write is always one that Redis allows when memory is short.
local function take_hold_off(lock, holder)
  local count = tonumber(redis.call('hget', lock, holder) or 0)
  if count > 1 then
    redis.call('pexpire', lock, redis.call('pttl', lock))
    return redis.call('hincrby', lock, holder, -1)
  end
  if redis.call('hdel', lock, holder) == 1 then
    redis.call('publish', companion('redisson_lock__channel', lock), '0')
  end
  return 0
end

-- Lets go of what the lease holds; false: it held nothing any more.
local function let_go(record, lease_id)
  if record.kind == 'permit' then return give_permit_back(record.lock, lease_id) end
  if not holds(record, lease_id) then return false end
  take_hold_off(record.lock, holder_of(record, lease_id))
  return true
end

-- Ms that a lease which holds has left.
local function time_left(record, lease_id)
  if record.kind == 'permit' then
    return permit_left(record.lock, lease_id, epoch_ms()) or 0
  end
  return redis.call('pttl', record.lock)
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

-- Why a lease that was held holds no more.
local function loss_reason(record, lease_id)
  local forced = redis.call('get', companion('rlockd:forced', record.lock)) or ''
  local holder, token = string.match(forced, '^(.*) (%d*)$')
  local is_it = holder == holder_of(record, lease_id) and
    (record.token == '' or record.token == token)
  return is_it and 'forced' or 'expired'
end

-- A lease was lost: its session hears of it with its next keep-alive, a hanging one at once.
local function lose(record, lease_id, window)
  local reason, session = loss_reason(record, lease_id), record.session
  if record.kind == 'permit' then give_permit_back(record.lock, lease_id) end
  spend(record, lease_id, reason, window)
  if session ~= '' then
    local lost = 'rlockd:session-lost:' .. session
    redis.call('hset', lost, lease_id, reason .. '\n' .. record.kind .. '\n' .. record.lock)
    local session_left = redis.call('pttl', 'rlockd:session:' .. session)
    redis.call('pexpire', lost, math.max(session_left, tonumber(window)))
    redis.call('publish', 'rlockd:sessions', session)
  end
  return reason
end

-- Takes back that one request waits with this lease's token: the last one takes the place
-- in line with it.
local function stop_waiting_with(record, lease_id, mark, waiters)
  local key = record_key(lease_id)
  if record.detail == 'shared' then
    -- The other one waits on. Who has left is noted, for he may be withdrawn a second time.
    record.detail, record.mark = mark, ''
    redis.call('pexpire', key, redis.call('pttl', key)) -- a write that is always allowed
    redis.call('set', key, format(record), 'keepttl')
  elseif record.mark == mark or (record.mark == '' and record.detail ~= mark) then
    redis.call('zrem', waiters, lease_id)
    redis.call('del', key)
  end
end
