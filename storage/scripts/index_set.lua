-- Sets when the watchdog visits a session, or takes the session out of the index.
-- KEYS index
-- ARGV session_id in_ms [claim]
-- sync no
--
-- in_ms  ms until the visit; empty: the session leaves the index
-- claim  that of index_claim.lua: nothing changes unless the session still has the time that
--        the claim gave it; without claim the visit comes earlier than it was to come, never
--        later; "-": nothing changes unless the index has lost the session
--
-- Reply  1 | 0: another front end has claimed it, or it is to be visited earlier
--
-- The first write is one that Redis allows when memory is short.
-- modules

local INDEX_MS = 30 * 86400000 -- of front ends that never come back

if claim and claim ~= '-' and call('zscore', index, session_id) ~= claim then return 0 end
if in_ms == '' then return call('zrem', index, session_id) end

local is_there = call('pexpire', index, INDEX_MS) == 1
local at = lib.number.epoch_ms() + in_ms
local changed
if claim == '-' then
  changed = call('zadd', index, 'nx', at, session_id)
elseif claim then
  changed = call('zadd', index, 'ch', at, session_id)
else
  changed = call('zadd', index, 'lt', 'ch', at, session_id)
  -- A front end that has claimed the session may have found none: its claim is void.
  if changed == 0 then call('zincrby', index, -1, session_id) end
end
if not is_there then call('pexpire', index, INDEX_MS) end
return changed
