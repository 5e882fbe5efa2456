-- Looks at a lock: who holds it, for how long, who waits. When a lease is named and holds, the
-- caller is told so, and the request that was granted may not take it back any more.
--
-- KEYS  1 lock   2 fencing counter   3 waiters
-- ARGV  1 how many waiters to name   2 lease that asks, or ""
--
-- Reply  remaining ms (-2: free)
--        fencing token or 0
--        [holder, holds, note, session id, session name, owner, kept by the watchdog] or []
--        number of waiters
--        [lease id, remaining ms, waited ms, note, ...]
--        the asking lease's state ("" unknown, waiting, held, ended), and why it ended
-- include lease

local lock, counter, waiters = KEYS[1], KEYS[2], KEYS[3]
local limit, lease_id = ARGV[1], ARGV[2]

local holders = redis.pcall('hrandfield', lock, 2, 'withvalues')
if holders.err then return holders end
local remaining = redis.call('pttl', lock)
local now = epoch_ms()

local function describe_holder()
  if #holders ~= 2 then return holders end
  local id, thread = string.match(holders[1], '^([^:]*):(.*)$')
  if not id then return holders end
  local note, session, owner, watchdog = '', id, thread, ''
  local record = thread == '0' and parse(redis.call('get', record_key(id)) or nil)
  if record then
    note, session, owner, watchdog = record.note, record.session, '', record.watchdog
  end
  local name = session ~= '' and redis.call('hget', 'rlockd:session:' .. session, 'name')
  if not name then session, owner, name = '', '', '' end
  return {holders[1], tonumber(holders[2]) or 0, note, session, name, owner, watchdog}
end

local function describe_waiters()
  local waiting = {}
  local found =
    redis.call('zrangebyscore', waiters, now, '+inf', 'withscores', 'limit', 0, limit)
  for i = 1, #found, 2 do
    local record = parse(redis.call('get', record_key(found[i])) or nil)
    waiting[#waiting + 1] = found[i]
    waiting[#waiting + 1] = found[i + 1] - now
    waiting[#waiting + 1] = record and record.since ~= '' and now - record.since or -1
    waiting[#waiting + 1] = record and record.note or ''
  end
  return waiting
end

local function lease_state()
  if lease_id == '' then return '', '' end
  local key = record_key(lease_id)
  local record = parse(redis.call('get', key) or nil)
  if not record then
    return holders[1] == lease_id .. ':0' and 'held' or '', ''
  end
  if record.lock ~= lock then return '', '' end
  if record.state ~= 'held' then return record.state, record.detail end
  if not holds(record, lease_id) then return 'ended', loss_reason(record, lease_id) end
  record.mark = ''
  redis.call('pexpire', key, redis.call('pttl', key)) -- a write that is always allowed
  redis.call('set', key, format(record), 'keepttl')
  return 'held', ''
end

local state, reason = lease_state()
return {
  remaining, redis.call('get', counter) or 0, describe_holder(),
  redis.call('zcount', waiters, now, '+inf'), describe_waiters(), state, reason
}
