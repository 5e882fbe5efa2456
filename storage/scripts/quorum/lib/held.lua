-- Replies about a lease for the scripts that run for a lease's session, at a node: no lease is
-- lost by the word of one node, so none is ended.
local leases, record, votes = lib.lease, lib.record, lib.vote

-- The reply about a lease that does not hold here, or may not; or nil, the holds on each of its
-- locks, and the ms that are left. `gone`: there is no record; `lapsed`: its hold has ended
-- here.
local function answer(lease, _, session)
  if not lease then return {'gone'} end
  if lease.state == 'ended' then return {'ended', lease.detail, ''} end
  if record.is_of_other(lease, session) then return {'reused'} end
  if lease.state == 'waiting' then return {'waiting'} end
  if votes.spent_of(lease) then return {'ended', votes.spent_of(lease), ''} end
  local holds = leases.holds_of(lease)
  if not holds then
    if leases.loss_reason(lease) == 'forced' then return {'ended', 'forced', ''} end
    return {'lapsed', lease.kind}
  end
  if not votes.is_confirmed(lease) then return {'restarted'} end
  return nil, holds, leases.time_left(lease, '0')
end

return {answer = answer}
