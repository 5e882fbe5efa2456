-- Sets when the watchdog visits a session, or the queue of a fair lock, or takes it out of the
-- index.
-- KEYS index
-- ARGV member in_ms [claim]
-- sync no
--
-- member  session id, or the name of the lock
-- in_ms   ms until the visit; empty: the member leaves the index
-- claim   that of index_claim.lua: nothing changes unless the member still has the time that
--         the claim gave it; without claim the visit comes earlier than it was to come, never
--         later; "-": nothing changes unless the index has lost the member. At a node of a
--         quorum nothing changes only where a later claim stands: the visit is for this node,
--         too, if the member was not due here. A claim that is past by this node's clock
--         counts all the same, for by a clock that is far ahead each claim is past
--
-- Reply  without claim: ms until the visit; else 1 | 0: nothing was changed
--
-- The first write is one that Redis allows when memory is short.
-- modules

--quorum: if claim and claim ~= '-' then
--quorum:   local at, own = tonumber(call('zscore', index, member) or 0), tonumber(claim)
--quorum:   if at > own and own > lib.number.epoch_ms() then return 0 end
--quorum:   call('zadd', index, claim, member)
--quorum: end
if claim and claim ~= '-' and call('zscore', index, member) ~= claim then return 0 end
if in_ms == '' then return call('zrem', index, member) end

local is_there = call('pexpire', index, lib.index.KEEP_MS) == 1
local now, reply = lib.number.epoch_ms(), nil
local at = now + in_ms
if claim == '-' then
  reply = call('zadd', index, 'nx', at, member)
elseif claim then
  reply = call('zadd', index, 'ch', at, member)
elseif call('zadd', index, 'lt', 'ch', at, member) == 1 then
  reply = in_ms
else
  -- A front end that has claimed the member may have found nothing there: its claim is void.
  reply = call('zincrby', index, -1, member) - now
end
if not is_there then call('pexpire', index, lib.index.KEEP_MS) end
return tonumber(reply)
