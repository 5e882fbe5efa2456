-- Votes: leases at a node of a quorum.
--
-- The record of a lease (../lib/record.lua) has these lines at a node:
--
--   detail   of a vote that is not claimed `was <counter>`: the fencing counter of the lock
--            before the vote; of a claimed one `by <mark>`: see ../renew.lua. Behind it, or
--            alone, `spent <reason>`: the lease is spent, but its hold is left until its time
--            is over
--   attempt  `<worker>.<number>.<round>` of a vote; without a point: the lease is claimed
--   since    of a lease that holds: since when the node's process serves, by its marker, as it
--            was when the lease was voted for or confirmed last
--   token    always there. All locks of a lease have the same token
--
-- The records of a set differ in `was`.
local keys, record, read_write = lib.keys, lib.record, lib.read_write_request

-- Since when the process of this node has its data, in epoch ms; false: no marker says so.
local function process() return call('hget', 'rlockd:marker', 'since') end

-- Ms until the node may vote; nil: it may.
local function quarantine_left(ms)
  local since = tonumber(process())
  local left = since and since + ms - lib.number.epoch_ms() or tonumber(ms)
  return left > 0 and lib.number.integer(left) or nil
end

-- Why the lease's session does not allow a vote here; nil: there is no session, or it does, and
-- the session's name.
local function unbound(request)
  if request.session == '' then return nil end
  local session = keys.companion('rlockd:session', request.session)
  local deadline, reason = lib.session_home.deadline_of(session, lib.number.epoch_ms())
  if not deadline then return reason end
  local ref = request.id .. ' ' ..
    (request.is_set and '\n' .. table.concat(request.locks, '\n') or request.locks[1])
  local notes = keys.companion('rlockd:session-leases', request.session)
  if call('hexists', notes, ref) == 0 then return 'full' end
  return nil, call('hget', session, 'name')
end

-- Why a lease that holds is spent; nil: it is not.
local function spent_of(lease) return string.match(lease.detail, 'spent (%S+)$') end

-- Whether the lease was voted for, renewed or repaired since the node's process serves: until
-- then an end of the lease may be missing in the data.
local function is_confirmed(lease) return lease.since == (process() or '') end

-- Attempt and round of an unclaimed vote; nil: it is claimed.
local function attempt_of(lease)
  local attempt, round = string.match(lease.attempt, '^(.*)%.(%d+)$')
  return attempt, tonumber(round)
end

-- The fencing counter before the vote, as the record beside lock number `i` says.
local function was_of(lease, i)
  local text = i == 1 and lease.detail or record.parse(call('get', lease.keys[i]) or '').detail
  return tonumber(string.match(text, '^was (%d+)')) or 0
end

-- The last fencing token of lock number `i`; nil: another type of key.
local function counter_of(lease, i)
  local last = try('get', keys.counter_of(lease.locks[i]))
  if type(last) == 'table' then return nil end
  return tonumber(last or '0') or 0
end

local function token_text(number) return string.format('%.0f', number) end

-- The reply that a plain lock is busy, or of another kind; nil: it is free.
local function plain_refusal(lock, number)
  local remaining = call('pttl', lock)
  if remaining == -2 then
    return not lib.fair_empty.is_empty(lock) and {'wrong-kind', number} or nil
  end
  local field, holds, kind, text = lib.holder.only(lock)
  if not field or kind == 'fair' then return {'wrong-kind', number} end
  return lib.holder.busy(remaining, lock, field, holds, text, number)
end

-- The reply that one of the locks is busy, or of another kind: the lock with the number
-- `blocking`, if it is busy, else the first one. Nil and the state of each lock: all are free.
local function refusal(request, blocking)
  local busy, found = nil, {}
  for i, lock in ipairs(request.locks) do
    local reply
    if request.kind == 'lock' then
      reply = plain_refusal(lock, i)
    else
      reply, found[i] = read_write.refusal(request, lock, i)
    end
    if reply and reply[1] ~= 'busy' then return {reply[1], i} end
    if reply and (not busy or i == blocking) then
      busy = reply
      busy[7] = i
    end
  end
  return busy, found
end

-- Writes the records of a lease that holds from now on, and the fencing counters of its locks.
-- `details`: of each record of a vote. Nil: this is no vote, and lowers no counter. The first
-- write is one that fails when memory is short.
local function write(lease, token, details, fencing_ttl)
  lease.since = process() or ''
  for i, key in ipairs(lease.keys) do
    if details or token > (counter_of(lease, i) or 0) then
      lib.token.put(keys.counter_of(lease.locks[i]), token_text(token), fencing_ttl)
    end
    lease.tokens[i], lease.detail = token_text(token), details and details[i] or ''
    call('set', key, record.format(lease, i), 'px', lease.keep)
  end
end

-- Takes all locks, which are free. `found`: see refusal().
local function take(request, found)
  for i, lock in ipairs(request.locks) do
    if request.kind == 'lock' then
      call('hset', lock, record.holder_of(request), '1')
      call('pexpire', lock, request.ttl)
    else
      read_write.take(request, lock, found[i])
    end
  end
  lib.request.granted(request, '')
end

-- The lease lasts its whole time from now on, at least. A read of a lease without an owner is
-- the first one of its reader.
local function extend(lease)
  for _, lock in ipairs(lease.locks) do
    if lease.kind == 'read' then
      call('pexpire', lib.readers.key_of(lock, record.holder_of(lease), 1), lease.ttl)
    end
    if call('pttl', lock) < tonumber(lease.ttl) then call('pexpire', lock, lease.ttl) end
  end
end

return {
  process = process, quarantine_left = quarantine_left, unbound = unbound, spent_of = spent_of,
  is_confirmed = is_confirmed, attempt_of = attempt_of, was_of = was_of,
  counter_of = counter_of, token_text = token_text, refusal = refusal, write = write,
  take = take, extend = extend
}
