-- Numbers that are kept as text: the free permits of a semaphore, the count of a latch. The
-- data do not show which of the two a number is.
local number = lib.number

-- Nil: there is no key. False: the text is no number. A hash or a list ends the script.
local function read(key)
  local text = call('get', key)
  if not text then return nil end
  if not string.find(text, '^%-?%d+$') or #text > 20 then return false end
  return tonumber(text)
end

-- The same; false also for a permit semaphore.
local function read_plain(key, timeouts)
  if call('exists', timeouts) == 1 then return false end
  return read(key)
end

-- The effect of a request with an idempotency key, `rlockd:idempotency:{<name>}:<key>` beside
-- the semaphore or latch, is a string of lines:
-- operation, amount and name, which must be the same in every request with the key; the attempt
-- that made the change, empty if it can not be withdrawn (any more); the permits that it took;
-- the answer, empty while the request waits: then the attempt is the last one of it, and the
-- permits are 0, or `+` where several requests wait with the key.
local function asked_for(operation, amount, name)
  return operation .. '\n' .. amount .. '\n' .. name
end

local function remember(key, asked, attempt, taken, answer, window)
  call('set', key, table.concat({asked, attempt, taken, answer}, '\n'), 'px', window)
end

local function recall(key)
  local text = call('get', key)
  if not text then return nil end
  local asked, attempt, taken, answer = string.match(text,
    '^([^\n]*\n[^\n]*\n[^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$')
  return {asked = asked, attempt = attempt, taken = taken, answer = answer}
end

-- The reply to a key that was used before, which must not be used again; nil: it may be used.
local function replay(key, past, asked, attempt)
  if not past then return nil end
  if past.asked ~= asked then return {'reused'} end
  if past.answer == '' then return nil end
  if past.attempt == attempt and attempt ~= '' then
    return {'granted', tonumber(past.answer), tonumber(past.taken)}
  end
  if past.attempt ~= '' then
    -- From here on the attempt is not withdrawn.
    lib.same_ttl.write(key, table.concat({past.asked, '', past.taken, past.answer}, '\n'))
  end
  return {'replayed', tonumber(past.answer), tonumber(past.taken)}
end

local function count_waiters(waiters)
  return call('zcount', waiters, '(' .. number.integer(number.epoch_ms()), '+inf')
end

-- Whether no other waiter may come: as many as a lock may have are there.
local function is_crowded(waiters)
  local most = lib.first.WAITERS_MAX
  return call('zcard', waiters) >= most and count_waiters(waiters) >= most
end

-- Registers `member` among the waiters, a zset of member -> deadline in epoch ms, for `wait`
-- ms.
local function add_waiter(waiters, member, wait, window)
  local now = number.epoch_ms()
  call('zremrangebyscore', waiters, '-inf', now)
  call('zadd', waiters, 'gt', number.integer(now + wait), member)
  if call('pttl', waiters) < wait + window then call('pexpire', waiters, wait + window) end
end

return {
  read = read, read_plain = read_plain, asked_for = asked_for, remember = remember,
  recall = recall, replay = replay, add_waiter = add_waiter, count_waiters = count_waiters,
  is_crowded = is_crowded
}
