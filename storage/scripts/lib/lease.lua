-- Leases of any kind: whether they hold, how they end. The module of a lease's kind,
-- lib[lease.kind], has the functions that differ between kinds; lib/lock.lua lists them.
local record, keys = lib.record, lib.keys

-- The holds of a lease on each of its locks; nil: it has lost at least one of them. Another
-- type of key in a lock's place counts as the loss of the lock, not as an error.
local function holds_of(lease)
  local is_held, counts = lib[lease.kind].is_held, {}
  for i, lock in ipairs(lease.locks) do
    local is_lock, count = pcall(is_held, lease, lock, lease.tokens[i])
    if not is_lock or not count then return nil end
    counts[i] = count
  end
  return counts
end

-- Releases all holds of the lease, also if it has lost one of several locks. Returns the
-- largest number of holds left on a lock; false: the lease had no hold any more.
local function release(lease)
  local kind, left = lib[lease.kind], false
  for i, lock in ipairs(lease.locks) do
    local is_lock, count = pcall(kind.is_held, lease, lock, lease.tokens[i])
    if is_lock and count then
      left = math.max(left or 0, kind.release(lease, lock) or 0)
    end
  end
  return left
end

-- Ms that a lease which holds has left; negative: an operator took the TTL away. A lease that
-- shares its owner's lock may end before the lock: its record lasts `window` ms longer than it.
local function time_left(lease, window)
  local left_of, least = lib[lease.kind].left, nil
  for _, lock in ipairs(lease.locks) do
    local left = left_of(lease, lock)
    if left >= 0 then least = math.min(least or left, left) end
  end
  if lease.owner == '' then return least or -1 end
  local own = math.max(call('pttl', lease.keys[1]) - window, 0)
  return math.min(least or own, own)
end

-- Writes the lease's records, which keep their TTL. The first write is a command that Redis
-- allows when memory is short.
local function rewrite(lease)
  for i, key in ipairs(lease.keys) do lib.same_ttl.write(key, record.format(lease, i)) end
end

-- Claims the lease, because the client is answered `held`: from here on the granted attempt is
-- not withdrawn any more.
local function claim(lease)
  if lease.attempt == '' then return end
  lease.attempt = ''
  rewrite(lease)
end

local function listed_ms(lease) return string.match(lease.attempt, '^listed (%d+)$') end

local function mark_listed(lease)
  lease.attempt = 'listed ' .. lib.number.integer(lib.number.epoch_ms())
  rewrite(lease)
end

-- A keep-alive lists the lease: the granted attempt is not withdrawn any more. Nothing changes
-- if no attempt could be withdrawn before.
local function list(lease)
  if lease.attempt ~= '' and not listed_ms(lease) then mark_listed(lease) end
end

-- Whether a keep-alive listed the lease before `before_ms`, and no request has been answered
-- that it holds since. Where a request has been, it counts as listed from now on.
local function was_listed(lease, before_ms)
  local since = listed_ms(lease)
  if lease.attempt == '' then mark_listed(lease) end
  return since and tonumber(since) < tonumber(before_ms)
end

-- The fencing tokens as one text, with blanks between them; a token that the record does not
-- have is read from the lock's counter.
local function tokens_of(lease)
  local tokens = {}
  for i, token in ipairs(lease.tokens) do
    local last = token == '' and try('get', keys.given(i, KEY_COUNTER))
    tokens[i] = token ~= '' and token or type(last) == 'string' and last or '0'
  end
  return table.concat(tokens, ' ')
end

-- Spends the tokens of `record_keys`, for as long as a client may repeat a request with them.
-- `left`: the number for the record, so that a repeated request gets the same reply. A `window`
-- of 0 leaves no record: the token may be used again. The first write is a command that Redis
-- allows when memory is short.
local function spend(record_keys, reason, window, left)
  local text = record.ended(reason, left)
  for _, key in ipairs(record_keys) do
    call('pexpire', key, window)
    if window ~= '0' then call('set', key, text, 'px', window) end
  end
end

-- Another session was to end the lease, which stays. A request of that session may be under way
-- for `window` ms: until then the lease's records last, and when the lease is withdrawn, its
-- token is spent. The first write is a command that Redis allows when memory is short. At a
-- node of a quorum a request of an ended session gets no vote.
local function bar(lease, window)
  --quorum: do return end
  spend({keys.sibling(lease.locks[1], 'barred', lease.ref)}, 'session-ended', window)
  for _, key in ipairs(lease.keys) do
    local left = call('pttl', key)
    if left >= 0 and left < tonumber(window) then call('pexpire', key, window) end
  end
end

-- Removes the records of a lease that is withdrawn: its token may be used again, but for bar().
local function forget(lease)
  local barred_ms = call('pttl', keys.sibling(lease.locks[1], 'barred', lease.ref))
  if barred_ms > 0 then return spend(lease.keys, 'session-ended', barred_ms) end
  call('del', unpack(lease.keys))
end

-- Why a lease that held does not hold any more. `rlockd:forced` has the last force-unlock: the
-- holder field, or `*` for all holders of a read/write lock, and the newest token that it
-- ended.
local function loss_reason(lease)
  if lease.detail == 'forced' then return 'forced' end
  local holder = record.holder_of(lease)
  for i, lock in ipairs(lease.locks) do
    local forced = try('get', keys.sibling(lock, 'forced'))
    local field, token = string.match(type(forced) == 'string' and forced or '', '^(.*) (%d*)$')
    local own = lease.tokens[i]
    if field == holder and (own == '' or own == token) then return 'forced' end
    local number, last = tonumber(own), tonumber(token)
    if field == '*' and number and last and number <= last then return 'forced' end
  end
  return 'expired'
end

-- Who forced the lease out, and why: the caller, a newline and the reason, beside the lease's
-- first lock for as long as its token is known. Nil: neither was given, or it was not forced.
local function forced_by(lease)
  local by = try('get', keys.sibling(lease.locks[1], 'forced-by', lease.ref))
  return type(by) == 'string' and by or nil
end

local function note_forced_by(lease, by, window)
  call('set', keys.sibling(lease.locks[1], 'forced-by', lease.ref), by, 'px', window)
end

-- Notes it for a lease that has just been found forced: from the last force-unlock of its lock,
-- before another force-unlock overwrites that.
local function keep_forced_by(lease, window)
  if lease.detail == 'forced' then return end -- noted by force_unlock.lua
  for _, lock in ipairs(lease.locks) do
    local text, forced = try('get', keys.sibling(lock, 'forced-by')),
      try('get', keys.sibling(lock, 'forced'))
    local head, by = string.match(type(text) == 'string' and text or '', '^([^\n]*)\n(.*)$')
    if head and head == forced then return note_forced_by(lease, by, window) end
  end
end

-- Ends a lease that has lost one of its locks, or whose time is over (`reason`): releases its
-- remaining holds. Returns the reason.
local function end_lost(lease, window, reason)
  call('pexpire', lease.keys[1], window) -- a write that is always allowed
  reason = reason or loss_reason(lease)
  release(lease)
  local clear = lib[lease.kind].clear
  for _, lock in ipairs(clear and lease.locks or {}) do pcall(clear, lease, lock) end
  spend(lease.keys, reason, window)
  if reason == 'forced' then keep_forced_by(lease, window) end
  return reason
end

-- The reply that a lease has ended, in this call or before. The reply names the lease's session
-- only if the lease ended in this call; then C reports the end to the session's home.
local function ended_reply(lease)
  return {'ended', lease.detail, '', '', lease.detail == 'forced' and forced_by(lease) or nil}
end

local function lost_reply(lease, window)
  local reason = end_lost(lease, window)
  local by = reason == 'forced' and forced_by(lease) or nil
  return {'ended', reason, lease.session, lease.kind, by}
end

-- Removes a waiting lease from the waiters of all its locks.
local function unregister(lease)
  local leave_queue = lib[lease.kind].leave_queue
  for _, lock in ipairs(lease.locks) do
    try('zrem', keys.sibling(lock, 'waiters'), lease.ref)
    if leave_queue then leave_queue(lease, lock) end
  end
end

-- Publishes to the requests that wait with the lease's token that the lease has changed.
local function publish(lease)
  for _, lock in ipairs(lease.locks) do
    call('publish', 'rlockd:leases', lease.id .. ' ' .. lock)
  end
end

return {
  holds_of = holds_of, release = release, time_left = time_left, rewrite = rewrite,
  claim = claim, list = list, was_listed = was_listed, tokens_of = tokens_of, spend = spend,
  bar = bar, forget = forget, loss_reason = loss_reason,
  end_lost = end_lost, ended_reply = ended_reply, lost_reply = lost_reply,
  unregister = unregister, publish = publish, forced_by = forced_by,
  keep_forced_by = keep_forced_by, note_forced_by = note_forced_by
}
