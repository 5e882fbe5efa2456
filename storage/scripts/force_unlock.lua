-- Frees a lock whoever holds it, all readers of it at once, or only one grant of it.
--
-- KEYS  1 lock   2 fencing counter   3 who was forced out last: holder and token; `*` is all
-- ARGV  1 retry window in ms
--       2 fencing token of the only grant to free, "*" for any grant, or "": whatever there is
--
-- Replies  unlocked, holder | free | stale: another grant, or none | wrong-kind
-- include lease

local lock, counter, forced = KEYS[1], KEYS[2], KEYS[3]
local window, only = ARGV[1], ARGV[2]

local held_for = redis.pcall('hget', lock, 'mode')
if type(held_for) == 'table' then return held_for end

-- Sessions hear of it at once: the holder's own, or the one that its lease belongs to.
local function tell_session(field)
  local id, thread = string.match(field, '^([^:]*):([^:]*)')
  local record = (thread == '0' or thread == 'm') and find_record(id)
  redis.call('publish', 'rlockd:sessions',
    record and record.session ~= '' and record.session or id)
end

local function note(holder, token)
  redis.call('set', forced, holder .. ' ' .. token, 'px', window)
end

local function free_lock()
  local holders = redis.call('hrandfield', lock, 2)
  if #holders == 0 then return {only == '' and 'free' or 'stale'} end
  if #holders ~= 1 or not is_holder(holders[1]) then return {'wrong-kind'} end
  local token = redis.call('get', counter) or ''
  if only ~= '' and only ~= '*' and token ~= only then return {'stale'} end
  -- DEL first: it is allowed when memory is short.
  redis.call('del', lock)
  redis.call('publish', companion('redisson_lock__channel', lock), '0')
  call_head(lock, epoch_ms()) -- where it is a fair lock
  note(holders[1], token)
  tell_session(holders[1])
  return {'unlocked', holders[1]}
end

-- The reads of one grant; those of one owner share its token. Each is told at once: who is
-- forced out next is noted in the same place.
local function free_reads()
  local reads = reads_of_grant(lock, only)
  if #reads == 0 then return {'stale'} end
  local holder = reads[1][1]
  for _, read in ipairs(reads) do end_read(lock, read[1], read[2]) end
  note(holder, only)
  for _, read in ipairs(reads) do lose(read[3], read[2], window) end
  return {'unlocked', holder}
end

-- Whether a writer of ours holds with this token; Java's have none.
local function is_current_writer(some, token)
  for _, one in ipairs(some) do
    if is_writer(one[1]) then return is_ours(one[1]) and token == only end
  end
  return false
end

local function free_readers_and_writer()
  local some = some_holders(lock, held_for)
  if not some then return {'wrong-kind'} end
  local token = redis.call('get', counter) or ''
  if only ~= '' and only ~= '*' then
    if held_for == 'read' then return free_reads() end
    if not is_current_writer(some, token) then return {'stale'} end
  end
  local fields = redis.call('hgetall', lock)
  redis.call('del', lock)
  redis.call('publish', rw_channel(lock), '1')
  redis.call('publish', rw_channel(lock), '0')
  note('*', token)
  local holder = ''
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      holder = fields[i]
      for number = 1, tonumber(fields[i + 1]) or 0 do
        redis.call('del', read_key(lock, holder, number))
      end
      tell_session(holder)
    end
  end
  return {'unlocked', holder}
end

if not held_for then return free_lock() end
return free_readers_and_writer()
