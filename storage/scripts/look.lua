-- Looks at a lock: who holds it, for how long, who waits. When a lease is named and holds, the
-- caller is told so, and the request that was granted may not take it back any more.
--
-- KEYS  1 lock   2 fencing counter   3 waiters
-- ARGV  1 how many waiters to name   2 how many holders to name
--       3 lease that asks, or ""     4 fencing token that is asked for, or ""
--       5 the only holder to name, or ""
--
-- Reply  remaining ms (-2: free)   fencing token or 0
--        kind, as far as the data tells, or ""; holders
--        [holder, holds, note, session id, session name, owner, kept by the watchdog,
--         kind, fencing token or "", remaining ms, ...]
--        number of waiters
--        [lease id or "", remaining ms, waited ms, note, holder in a queue, ...]
--        the asking lease's state ("" unknown, waiting, held, ended), and why it ended
--        1: the token is one of a grant that holds
--        or wrong-kind
-- include lease

local lock, counter, waiters = KEYS[1], KEYS[2], KEYS[3]
local waiters_max, holders_max, lease_id, asked_for = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local held_for = redis.pcall('hget', lock, 'mode')
if type(held_for) == 'table' then return held_for end
local remaining = redis.call('pttl', lock)
local last_token = redis.call('get', counter) or '0'
local now = epoch_ms()
local is_queue = redis.call('exists', queue_of(lock)) == 1

-- A hash that is no lock may have any number of fields.
local fields = redis.call('hrandfield', lock, held_for and holders_max + 1 or 2, 'withvalues')
if held_for and not some_holders(lock, held_for) then return {'wrong-kind'} end
if ARGV[5] ~= '' then
  local count = redis.call('hget', lock, ARGV[5])
  fields = count and {ARGV[5], count} or {}
end

local function kind_of(field)
  if not held_for then return kind_of_holder(lock, field) or 'lock' end
  return is_writer(field) and 'write' or 'read'
end

-- One of ours has a record, or is an owner of a session.
local function describe(field, count, kind, left)
  local id, thread = string.match(field, '^([^:]*):([^:]*)')
  local record = (thread == '0' or thread == 'm') and find_record(id)
  local note, session, owner, watchdog, token = '', id, thread, '', ''
  if record then
    note, session, owner, watchdog = record.note, record.session, '', record.watchdog
    token = token_for(record, lock)
  elseif kind == 'read' then
    token = token_of_reads(lock, field) or ''
  end
  local name = session ~= '' and redis.call('hget', 'rlockd:session:' .. session, 'name')
  if not name then session, owner, name = '', '', '' end
  -- A Java client's write has none; of its plain lock nobody can tell.
  if token == '' and kind ~= 'read' and (kind ~= 'write' or is_ours(field)) then
    token = last_token
  end
  return {field, count, note, session, name, owner, watchdog, kind, token, left}
end

local kind, holders, holder_count, is_current = '', {}, 0, false
local function add_holder(field, count, left)
  local values = describe(field, count, kind_of(field), left)
  holder_count = holder_count + 1
  is_current = is_current or (asked_for ~= '' and values[9] == asked_for)
  for _, value in ipairs(values) do holders[#holders + 1] = value end
end

local keyless = nil -- see living_reader()
for i = 1, #fields, 2 do
  local field, count = fields[i], tonumber(fields[i + 1]) or 0
  if field ~= 'mode' then
    if not is_holder(field) then return {'wrong-kind'} end
    kind = held_for or kind_of(field)
    local is_read = held_for and not is_writer(field)
    local left = is_read and reads_left(lock, field, count) or remaining
    if left ~= 0 then -- a reader who died is there until somebody notices
      add_holder(field, count, left)
    elseif not is_ours(field) then
      keyless = {field, count}
    end
  end
end
if keyless and holder_count == 0 then add_holder(keyless[1], keyless[2], remaining) end
if not held_for and holder_count > 1 then return {'wrong-kind'} end
if held_for and #fields / 2 > tonumber(holders_max) then
  holder_count = redis.call('hlen', lock) - 1
end
if holder_count == 0 then
  remaining = -2
  if held_for then kind = '' end
end
if kind == '' and is_queue then kind = 'fair' end
if held_for == 'read' and asked_for ~= '' then
  is_current = #reads_of_grant(lock, asked_for) > 0 -- not all of them are in `holders`
end

local waiting = {}
local function add_waiter(id, deadline, place)
  local record = id ~= '' and find_record(id)
  local left = deadline and math.max(deadline - now, 0) or 0
  local waited = record and record.since ~= '' and now - record.since or -1
  for _, value in ipairs({id, left, waited, record and record.note or '', place}) do
    waiting[#waiting + 1] = value
  end
end

local waiter_count
if is_queue then
  waiter_count = redis.call('llen', queue_of(lock))
  for _, place in ipairs(redis.call('lrange', queue_of(lock), 0, waiters_max - 1)) do
    local id = string.match(place, '^([^:]*):0$')
    add_waiter(id or '', id and redis.call('zscore', waiters, id), place)
  end
else
  waiter_count = redis.call('zcount', waiters, now, '+inf')
  local found =
    redis.call('zrangebyscore', waiters, now, '+inf', 'withscores', 'limit', 0, waiters_max)
  for i = 1, #found, 2 do add_waiter(found[i], found[i + 1], '') end
end

local function lease_state()
  if lease_id == '' then return '', '' end
  local record = parse(redis.call('get', record_key(lease_id)) or nil)
  if not record then
    return redis.call('hexists', lock, lease_id .. ':0') == 1 and 'held' or '', ''
  end
  if record.lock ~= lock then return '', '' end
  if record.state ~= 'held' then return record.state, record.detail end
  if not holds(record, lease_id) then return 'ended', loss_reason(record, lease_id) end
  record.mark = ''
  rewrite(record, lease_id)
  return 'held', ''
end

local state, reason = lease_state()
return {
  remaining, last_token, kind, holder_count, holders, waiter_count, waiting, state, reason,
  is_current and 1 or 0
}
