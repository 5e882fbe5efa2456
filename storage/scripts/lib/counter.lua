-- What the scripts share about numbers that are kept as text: the free permits of a semaphore,
-- the count of a latch. Nothing in the data tells which of the two it is.

-- Nil: there is none. False: it is something else. A hash or a list ends the script.
local function read_counter(key)
  local text = redis.call('get', key)
  if not text then return nil end
  if not string.find(text, '^%-?%d+$') or #text > 20 then return false end
  return tonumber(text)
end

-- The same, where a semaphore whose permits expire is something else, too.
local function read_plain_counter(key, timeouts)
  if redis.call('exists', timeouts) == 1 then return false end
  return read_counter(key)
end

local function decimal(number) return string.format('%.0f', number) end

-- What a request with an idempotency key did, `rlockd:idempotency:<key>`, is a string of lines:
-- operation, amount and name, which no request with the same key may change; the mark of the
-- request that did it, empty when it is not taken back, or once another one was told of it; the
-- permits that it was about; the answer, empty while it waits.
local function asked_for(operation, amount, name)
  return operation .. '\n' .. amount .. '\n' .. name
end

local function remember(key, asked, mark, taken, answer, window)
  redis.call('set', key, table.concat({asked, mark, taken, answer}, '\n'), 'px', window)
end

local function recall(key)
  local text = redis.call('get', key)
  if not text then return nil end
  local asked, mark, taken, answer = string.match(text,
    '^([^\n]*\n[^\n]*\n[^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$')
  return {asked = asked, mark = mark, taken = taken, answer = answer}
end

-- Why a key that was used before is not to be used now: a reply, or nothing.
local function replay(key, record, asked, mark)
  if not record then return nil end
  if record.asked ~= asked then return {'reused'} end
  if record.answer == '' then return nil end
  if record.mark == mark and mark ~= '' then
    return {'granted', tonumber(record.answer), tonumber(record.taken)}
  end
  if record.mark ~= '' then
    -- From here on nobody takes it back. PEXPIRE first: it is allowed when memory is short, and
    -- so is then what follows.
    redis.call('pexpire', key, redis.call('pttl', key))
    redis.call('set', key, table.concat({record.asked, '', record.taken, record.answer}, '\n'),
      'keepttl')
  end
  return {'replayed', tonumber(record.answer), tonumber(record.taken)}
end

local function time_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Stands among the waiters, a zset of member -> deadline in epoch ms, for `wait` more.
local function stand_among(waiters, member, wait, window)
  local now = time_ms()
  redis.call('zremrangebyscore', waiters, '-inf', now)
  redis.call('zadd', waiters, 'gt', decimal(now + wait), member)
  if redis.call('pttl', waiters) < wait + window then
    redis.call('pexpire', waiters, wait + window)
  end
end

local function count_standing(waiters)
  return redis.call('zcount', waiters, '(' .. decimal(time_ms()), '+inf')
end
