-- Withdraws one attempt for a permit: withdraw.lua for permits.
--
-- KEYS semaphore record
-- ARGV lease_id attempt
-- sync no
--
-- Reply  those of withdraw.lua
-- modules permit
local lease = lib.record.load(lease_id)
if not lease or lib.record.mismatch(lease, true) or lease.state == 'ended' then return 0 end
if lease.state == 'waiting' then
  lib.waiting.withdraw(lease, attempt)
  return 0
end
if lease.attempt ~= attempt then return 2 end
lib.lease.forget(lease)
return lib.permit.release(lease, semaphore) and 1 or 0
