-- Ends a lease of a session: releases its holds or removes it from the waiters, and spends its
-- token, also when no request with the token has come yet.
--
-- KEYS as lease_watch.lua
-- ARGV as lease_watch.lua to lease_id reason window_ms [session] [timed] [before_ms]
-- REPLY [] kind [token]
-- sync no
--
--   KEYS       for each lock of the lease
--   reason     why: session-ended or released; at a node of a quorum also forced
--   window_ms  for which the token of an ended lease is known
--   session    id of the session that has a note of the lease; empty: whatever its session
--   timed      "1": the reply has the lease's fencing token, which tells when it was granted
--   before_ms  epoch ms: only a lease ends that a keep-alive listed before, and that no request
--              has been answered to hold since
--
-- Replies  the kind of the lease: it held; with `timed` kind and token of the first lock
--          1: it held, this is a repetition | 0
--          2: the lease is of another session, or of none, or stays because of `before_ms`
--
-- A lease of another session, or of none, stays as it is. An attempt of the session may still
-- be under way then: the token is spent if that lease is withdrawn (bar() in lib/lease.lua).
--
-- A force-unlock knows one lock of a set only: at a node of a quorum the set's record stays
-- there and says so, for the next request of its holder to release the other locks.
--
-- At a session's end a repetition is told within the window that the lease held, for the first
-- reply may have been lost. The first write is a command that Redis allows when memory is
-- short.
-- modules lock fair read write permit
local leases, lease = lib.lease, lib.record.load(lease_id)
if lease and lease.state ~= 'ended' and lib.record.is_of_other(lease, session) then
  leases.bar(lease, window_ms)
  return 2
end
if before_ms and not (lease and (lease.state == 'ended' or
  (lease.state == 'held' and leases.was_listed(lease, before_ms)))) then
  return 2
end
-- A node without a record need not spend the token: it gives a request of an ended session no
-- vote, and the lease may be another session's, whose record is missing here.
--quorum: if not lease and session and session ~= '' and reason == 'session-ended' then
--quorum:   return 0
--quorum: end
local spent = lease or lib.record.with_keys({token = ''}, lease_id)
-- A lease that holds without a record has no session, and its token was made by the server.
if not lease and session and session ~= '' and not spent.is_set and
  try('hexists', lock, lease_id .. ':0') == 1 then
  return 0
end
--quorum: local kept_ms = call('pttl', KEYS[KEY_RECORD])
call('pexpire', KEYS[KEY_RECORD], window_ms)
if lease and lease.state == 'ended' then
  return lease.detail == reason and lease.left > 0 and 1 or 0
end
local has_held = lease and lease.state == 'held' and leases.release(lease)
--quorum: if reason == 'forced' and lease then leases.keep_forced_by(lease, window_ms) end
local is_waiting = lease and lease.state == 'waiting'
if is_waiting then leases.unregister(lease) end
--quorum: if reason == 'forced' and spent.is_set and spent.state == 'held' then
--quorum:   if leases.loss_reason(spent) ~= 'forced' then
--quorum:     spent.detail = 'forced'
--quorum:     leases.rewrite(spent)
--quorum:   end
--quorum:   call('pexpire', spent.keys[1], math.max(kept_ms, window_ms))
--quorum: else
leases.spend(spent.keys, reason, window_ms, has_held and reason == 'session-ended' and 1)
--quorum: end
if is_waiting then leases.publish(lease) end
if has_held and timed == '1' and lease.kind ~= 'permit' then
  return {lease.kind, lib.token.of(lease.tokens[1], lease.locks[1])}
end
return has_held and lease.kind or 0
