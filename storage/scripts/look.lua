-- Looks at a lock: its holders, for how long, its waiters. If `lease_id` names a lease that
-- holds, the reply says so, and the lease's attempt must not be withdrawn any more.
--
-- KEYS lock counter queue waiters deadlock
-- ARGV waiters_max holders_max lease_id asked_token [is_first]
-- REPLY [] remaining_ms fencing_token kind holder_count holders waiter_count waiters lease_state lease_reason is_current deadlock
-- REPLY [holder] field holds note session_id session_name owner watchdog kind fencing_token remaining_ms
-- REPLY [waiter] lease_id remaining_ms waited_ms note field
-- sync no
--
--   queue                     of a fair lock of that name
--   waiters_max, holders_max  how many to name
--   lease_id                  the lease that asks, or ""
--   asked_token               the fencing token that is asked for, or ""
--   is_first                  "1": another look follows if as many holders are found, or more;
--                             so what would take long is left to it
--
-- Replies  wrong-kind, and this:
--   remaining_ms  -2: the lock is free
--   fencing_token  none is 0 for the lock, "" for a holder
--   kind          as far as the data tells, or ""
--   watchdog      "1": keeps the holder's lease
--   lease_id      of a waiter, or ""           waited_ms      -1: not known
--   field         of a waiter: its holder field in a queue, or ""
--   lease_state   of the asking lease: "" unknown, waiting, held, ended
--   lease_reason  why the asking lease ended
--   is_current    1: the token is that of a grant that holds; 0: it is not; -1: it is not that
--                 of the readers that are named, but may be that of another reader
--   deadlock      the lines of the lock's mark that name the sessions of a deadlock, if the
--                 holder and the waiter that the mark names are still there; else ""
-- modules lock fair read write

-- The common case: a lease of one lock and without an owner holds it, no client waits, and no
-- lease asks. lib/look_holders.lua in short. At a node of a quorum it is not short: there the
-- hold may be older than the node's process.
if lease_id == '' and call('exists', queue, waiters) == 0 then
  local fields, keys = try('hrandfield', lock, 2, 'withvalues'), lib.keys
  local text = #fields == 2 and lib.brief.record_of_holder(fields[1],
    keys.sibling(lock, 'lease', ''), '', '\n%l+\n')
  --quorum: text = nil
  local left = text and call('pttl', lock)
  if text and left ~= 0 then
    local note, session, name, token, watchdog, kind = string.match(text,
      '^held\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*' .. string.rep('\n([^\n]*)', 6) .. '\n$')
    local last = call('get', counter) or '0'
    if token == '' then token = last end
    local is_current = asked_token ~= '' and asked_token == token
    return {left, last, kind, 1,
      {fields[1], tonumber(fields[2]) or 0, note, session, name, '', watchdog, kind, token,
        left},
      0, {}, '', '', is_current and 1 or 0, ''}
  end
end

local record = lib.record
local found, reply =
  lib.look_holders.find(lock, counter, tonumber(holders_max), asked_token, is_first)
if not found then return reply end
local waiting = lib.look_waiters.find(lock, waiters, tonumber(waiters_max))
if found.kind == '' and waiting.in_queue > 0 then found.kind = 'fair' end

local function lease_state()
  if lease_id == '' then return '', '' end
  local lease = record.known(record.find(lock, lease_id))
  if not lease then
    return call('hexists', lock, lease_id .. ':0') == 1 and 'held' or '', ''
  end
  if record.mismatch(lease, false) then return '', '' end
  if lease.state ~= 'held' then return lease.state, lease.detail end
  --quorum: if lib.vote.spent_of(lease) then return 'ended', lib.vote.spent_of(lease) end
  --quorum: if not lib.vote.is_confirmed(lease) then return '', '' end
  if not lib.lease.holds_of(lease) then return 'ended', lib.lease.loss_reason(lease) end
  lib.lease.claim(lease)
  return 'held', ''
end

-- See storage/look/deadlock.c.
local function marked_deadlock()
  local mark = waiters_max ~= '0' and try('get', deadlock)
  if type(mark) ~= 'string' then return '' end
  local field, waiter, members = string.match(mark, '^([^\n]*)\n([^\n]*)\n(.*)$')
  local stands = field and call('hexists', lock, field) == 1 and
    call('zscore', waiters, waiter)
  return stands and members or ''
end

local state, reason = lease_state()
-- The counter of one node may be above the token that a majority has granted.
--quorum: local own = found.holders[9] or ''
--quorum: if found.mode ~= 'read' and own ~= '' then found.last_token = own end
local is_unseen = found.mode == 'read' and asked_token ~= ''
return {
  found.remaining, found.last_token, found.kind, found.count, found.holders, waiting.count,
  waiting.waiters, state, reason, found.is_current and 1 or (is_unseen and -1 or 0),
  marked_deadlock()
}
