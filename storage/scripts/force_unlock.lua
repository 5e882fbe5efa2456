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
  local record = (thread == '0' or thread == 'm') and
    parse(redis.call('get', record_key(id)) or nil)
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

-- The reads of one grant; those of one owner share its token.
local function free_reads(fields)
  local freed = nil
  for i = 1, #fields, 2 do
    local reader, count = fields[i], tonumber(fields[i + 1]) or 0
    for number = count, 1, -1 do
      local lease_id = redis.call('get', read_key(lock, reader, number))
      local record = lease_id and parse(redis.call('get', record_key(lease_id)) or nil)
      if record and record.token == only and end_read(lock, reader, lease_id) then
        freed = reader
      end
    end
  end
  if not freed then return {'stale'} end
  note(freed, only)
  tell_session(freed)
  return {'unlocked', freed}
end

local function free_readers_and_writer()
  local fields = read_write_fields(lock)
  if not fields then return {'wrong-kind'} end
  local token = redis.call('get', counter) or ''
  if held_for == 'read' and only ~= '' and only ~= '*' then return free_reads(fields) end
  if only ~= '' and only ~= '*' and token ~= only then return {'stale'} end
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
