-- The watchdog's visit to a lease that watch_many.lua does not renew: renews the lease if its
-- record says that the watchdog renews it.
--
-- KEYS lock record...
-- ARGV lease_id timeout_ms window_ms [session]
-- REPLY renewed kind [token]
-- REPLY ends ms
-- REPLY ended reason
-- REPLY lapsed kind
-- REPLY lost as lease_claim.lua
-- sync no
--
--   KEYS        for each lock of the lease
--   timeout_ms  for which the lease is renewed; a read that is not renewed is visited three
--               times as often, because a Java reader may have shortened it
--   window_ms   for which the token of an ended lease is known
--   session     id of the session that has a note of the lease; empty: whatever its session
--
-- Replies  renewed | waiting
--          ends: the lease ends in `ms`, without a renewal. At a node of a quorum also a
--            vote that no majority may have yet: the request that cast it may take it back
--          gone: the lease neither holds nor waits | ended
--          lost: it held and is over, and is ended by this call
--          reused: the lease is of another session, or of none: nothing changes
--          at a node of a quorum: token of a lease that was renewed, and claimed by that;
--            lapsed, restarted: see quorum/lib/held.lua
--
-- The first write is one that Redis allows when memory is short.
-- modules lock fair read write permit
local lease = lib.record.load(lease_id)
local reply, _, left = lib.held.answer(lease, window_ms, session)
if reply then return reply end

--quorum: if lib.vote.attempt_of(lease) and left > timeout_ms * 5 / 6 then
--quorum:   return {'ends', math.ceil(timeout_ms / 6)} -- a young vote
--quorum: end
if lease.watchdog ~= '1' then
  if left <= 0 then return {'ends', tonumber(timeout_ms)} end
  if lease.kind ~= 'read' then return {'ends', left} end
  lib.restore.lease(lease, window_ms)
  return {'ends', math.min(left, math.ceil(timeout_ms / 3))}
end
for i, name in ipairs(lease.locks) do
  call('pexpire', lease.keys[i], timeout_ms + window_ms)
  lib[lease.kind].extend(lease, name, timeout_ms)
  lib.token.keep(lib.keys.counter_of(name), timeout_ms + window_ms)
end
--quorum: lib.lease.list(lease)
--quorum: if lease.tokens[1] ~= '' then return {'renewed', lease.kind, lease.tokens[1]} end
return {'renewed', lease.kind}
