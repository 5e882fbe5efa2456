-- Claims a lease that holds at this node with the token that a majority of the nodes has: its
-- vote is not withdrawn or moved any more. A request that is registered as a waiter waits no
-- more.
--
-- KEYS as ../lease_claim.lua
-- ARGV as ../lease_confirm.lua token
-- REPLY claimed remaining_ms record holds
-- REPLY gone now_ms
-- sync yes
--
--   token  which the hold must have
--
-- Replies  claimed: ms that the hold has left; of a set holds of each lock, a blank between
--          gone: there is no such hold, or none since the node's process serves, or the lease
--            is spent; the node's clock
--          reused
-- The first write is one that Redis allows when memory is short.
-- modules lock read write
local leases, records = lib.lease, lib.record
local request = records.with_keys(
  {kind = kind, owner = owner, session = session, token = ''}, lease_id)
if registered == '1' then leases.unregister(request) end

local gone = {'gone', lib.number.epoch_ms()}
local lease = records.load(lease_id)
if not lease or lease.state ~= 'held' or lib.vote.spent_of(lease) then return gone end
if records.is_other(lease, request) then return {'reused'} end
local holds = leases.holds_of(lease)
if not holds or lease.tokens[1] ~= token then return gone end
if not lib.vote.is_confirmed(lease) then return gone end
-- Whichever attempt's vote it is: from here on none is withdrawn. And its client is told how
-- long it lasts: a renewal before that takes nothing of that time any more.
if lease.attempt ~= '' or lease.detail ~= '' then
  lease.attempt, lease.detail = '', ''
  leases.rewrite(lease)
end
return {'claimed', leases.time_left(lease, window_ms), records.format(lease, 1),
  table.concat(holds, ' ')}
