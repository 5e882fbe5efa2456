-- Replies about a lease for the scripts that run for a lease's session.
local leases, record = lib.lease, lib.record

local function lost(lease, window, reason)
  return {'lost', leases.end_lost(lease, window, reason), lease.kind}
end

-- The reply about a lease that does not hold, or not for this session (empty: whatever its
-- session); or nil, the holds on each of its locks, and the ms that are left.
local function answer(lease, window, session)
  if not lease then return {'gone'} end
  if lease.state == 'ended' then return {'ended', lease.detail, ''} end
  if record.is_of_other(lease, session) then return {'reused'} end
  if lease.state == 'waiting' then return {'waiting'} end
  local holds = leases.holds_of(lease)
  if not holds then return lost(lease, window) end
  local left = leases.time_left(lease, window)
  if left == 0 and lease.watchdog ~= '1' then return lost(lease, window, 'expired') end
  return nil, holds, left
end

return {answer = answer}
