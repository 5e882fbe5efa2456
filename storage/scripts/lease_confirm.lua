-- Answers a request for a lease whose record says that it holds, by this or an earlier attempt:
-- an acquire script has said so. A request that is registered as a waiter waits no more.
--
-- KEYS as lease_claim.lua
-- ARGV lease_id window_ms kind owner session attempt [registered]
-- REPLY granted|held as acquire.lua
-- REPLY ended as acquire.lua
-- sync yes
--
--   KEYS        for each lock of the lease
--   window_ms   for which the token of an ended lease is known
--   kind and what follows  of the request: see lib/record.lua and lib/request.lua
--
-- Replies  granted: this very attempt got the lease
--          held: an earlier request got it
--          ended: session id and kind where this call found a loss
--          reused | again: the record has changed meanwhile, and the lease may be acquired
--          token and holds: of a set tokens and holds, a blank between
--
-- The first write is one that Redis allows when memory is short.
-- modules lock fair read write
local leases, records = lib.lease, lib.record
local request = records.with_keys(
  {kind = kind, owner = owner, session = session, token = ''}, lease_id)
if registered == '1' then leases.unregister(request) end

local lease = records.load(lease_id)
if not lease or lease.state == 'waiting' then return {'again'} end
if lease.state == 'ended' then return leases.ended_reply(lease) end
if records.is_other(lease, request) then return {'reused'} end
local holds = leases.holds_of(lease)
if not holds then return leases.lost_reply(lease, window_ms) end
if lease.kind == 'read' then lib.restore.lease(lease, window_ms) end

-- From here on neither the attempt that was granted nor this one is withdrawn, unless they are
-- one.
local is_own = lease.attempt == attempt
if not is_own then leases.claim(lease) end
return {is_own and 'granted' or 'held', leases.tokens_of(lease),
  leases.time_left(lease, window_ms), records.format(lease, 1), table.concat(holds, ' ')}
