-- Releases one lease's hold, or ends its wait; a repetition gets the same reply within the
-- retry window. A token that was never used is spent, so that a PUT that this release overtook
-- acquires nothing. If one lock of a set was lost, the other locks are released.
--
-- KEYS as lease_watch.lua
-- ARGV lease_id channel window_ms [timed]
-- REPLY released holds_left session_id [token]
-- REPLY ended as acquire.lua
-- sync yes
--
--   KEYS       for each lock of the lease
--   channel    of the waiters of the first lock
--   window_ms  for which the same release gives the same reply
--   timed      "1": the reply has the lease's fencing token, which tells when it was granted
--
-- Replies  0: released, no holds left; the common case, of a lease without a session
--          released: session id of the session where it held or waited until now; token, of
--            the first lock, with `timed` if the lease held until now and its token is known
--          ended: session id and kind where this call found a loss
--          reused: the token is that of a permit
--
-- A release is 3 commands. Its first write is one that Redis allows when memory is short.
local record, text, session = KEYS[KEY_RECORD], nil, nil

-- The common case: a holder of this lease alone. The last field takes the key with it. The
-- record of a set ends in "m"; 1 is that of a lease that was released (lib/record.lua).
if #KEYS == KEY_COUNT and string.byte(record, -1) ~= 109 and
  call('hdel', lock, lease_id .. ':0') == 1 then
  text = try('set', record, '1', 'px', window_ms, 'get')
  if type(text) == 'table' then text = nil end -- another type of key: it is no record
  -- A lock without session, token and owner, and most leases have no record at all.
  if not text or string.sub(text, -10) == '\n\n\n\n\nlock\n' then
    call('publish', channel, '0')
    if timed ~= '1' then return 0 end
    session = ''
  else
    session = string.match(text, '\n([^\n]*)\n[^\n]*\n\n1?\nlock\n$')
    --quorum: session = string.match(text, '\n([^\n]*)\n[^\n]*\n%d+\n1?\nlock\n$')
    --quorum: if session == '' and timed ~= '1' then
    --quorum:   call('publish', channel, '0')
    --quorum:   return 0
    --quorum: end
    if session then
      call('publish', channel, '0')
      if timed ~= '1' then return {'released', 0, session} end
    end
  end
end

-- modules lock fair read write
if session then return {'released', 0, session, lib.token.of(nil, lock)} end
local leases, lease = lib.lease, nil

local function released(left)
  local token = timed == '1' and lib.token.of(lease.tokens[1], lock) or nil
  return {'released', left, lease.session, token}
end

if text then -- the rest is another kind's
  lease = lib.record.with_key(lib.record.known(lib.record.parse(text)), lease_id, lock, record)
  -- The lease held the lock, whatever another client of Redis wrote into its record.
  if lease.state == 'ended' or lease.kind == 'permit' then lease.kind = 'lock' end
  if lib[lease.kind].field_removed(lease, lock) then return released(0) end
  return leases.lost_reply(lease, window_ms)
end
lease = lib.record.load(lease_id)
if not lease then
  local unseen = lib.record.with_keys({token = ''}, lease_id)
  leases.spend(unseen.keys, 'unknown', window_ms)
  return {'ended', 'unknown', '', ''}
end
local mismatch = lib.record.mismatch(lease, false)
if mismatch then return mismatch end
if lease.state == 'ended' then
  if lease.detail == 'released' then return {'released', lease.left, ''} end
  return leases.ended_reply(lease)
end
call('pexpire', record, window_ms) -- a write that is always allowed
if lease.state == 'waiting' then
  leases.unregister(lease)
  leases.spend(lease.keys, 'released', window_ms)
  leases.publish(lease)
  return {'released', 0, lease.session}
end
if not leases.holds_of(lease) then return leases.lost_reply(lease, window_ms) end
local left = leases.release(lease)
leases.spend(lease.keys, 'released', window_ms, left)
return released(left)
