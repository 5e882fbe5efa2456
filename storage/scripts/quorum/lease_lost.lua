-- Spends a lease that has lost its majority (E1). Only unclaimed votes of the attempt are
-- removed: a hold that its client may rely on lasts until its time is over, but is not renewed.
--
-- KEYS as ../lease_watch.lua
-- ARGV lease_id window_ms reason attempt
-- REPLY ended reason forced_by
-- sync yes
--
--   reason   for a lease that is not spent yet: expired or forced
--   attempt  `<worker>.<number>` of the operation; empty: it has cast no votes
--
-- Reply  why the lease ended, as this node knows it
-- The first write is one that Redis allows when memory is short.
-- modules lock read write
local leases, records, votes = lib.lease, lib.record, lib.vote
local lease = records.load(lease_id)
if lease and lease.state == 'ended' then
  return {'ended', lease.detail, leases.ended_reply(lease)[5]}
end
call('pexpire', KEYS[KEY_RECORD], window_ms)
if not lease then
  leases.spend(records.with_keys({token = ''}, lease_id).keys, reason, window_ms)
  return {'ended', reason}
end

-- The record of a hold that is left says that its lease is spent.
local function mark()
  for i, key in ipairs(lease.keys) do
    lease.detail = (i == 1 and lease or records.parse(call('get', key) or '')).detail
    lease.detail = (lease.detail == '' and '' or lease.detail .. ' ') .. 'spent ' .. reason
    lib.same_ttl.write(key, records.format(lease, i))
  end
end

local known = votes.spent_of(lease)
if lease.state == 'held' and leases.holds_of(lease) and
  (attempt == '' or votes.attempt_of(lease) ~= attempt) then
  if not known then mark() end
  return {'ended', known or reason}
end

if lease.state == 'waiting' then
  leases.unregister(lease)
  leases.spend(lease.keys, reason, window_ms)
  leases.publish(lease)
  return {'ended', reason}
end
if leases.loss_reason(lease) == 'forced' then reason = 'forced' end
reason = leases.end_lost(lease, window_ms, known or reason)
return {'ended', reason, reason == 'forced' and leases.forced_by(lease) or nil}
