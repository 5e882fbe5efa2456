-- Withdraws one attempt, because its client hung up before the answer or its outcome is
-- unknown: its grant or its entry among the waiters. Does nothing when the lease is claimed, or
-- when another request waits with the same token.
--
-- KEYS as lease_watch.lua
-- ARGV lease_id attempt unrepeatable keep_place window_ms
-- sync no
--
--   KEYS          for each lock of the lease
--   unrepeatable  "1": the request made the token, so no other request can have used it
--   keep_place    "1": the place in a fair lock's queue stays, for the next request with the
--                 token
--   window_ms     for which a place's record is kept
--
-- Reply  1: a grant was undone; 0: the attempt had none
--        2: the lease holds by another request, or its client was told that it holds
-- modules lock fair read write
local lease = lib.record.load(lease_id)
if not lease then
  if unrepeatable ~= '1' or call('hexists', lock, lease_id .. ':0') == 0 then return 0 end
  lib.lock.release(lib.record.plain(lease_id, lock, KEYS[KEY_RECORD]), lock)
  return 1
end
if lib.record.mismatch(lease, false) or lease.state == 'ended' then return 0 end
if lease.state == 'waiting' then
  lib.waiting.withdraw(lease, attempt, keep_place == '1' and window_ms)
  return 0
end
if lease.attempt ~= attempt then return 2 end
local undone = lib.lease.release(lease)
lib.lease.forget(lease)
return undone and 1 or 0
