-- Refreshes the marker: which Redis process serves these data, since when, and how old the data
-- were that the process began with. So front ends learn that Redis may have lost data.
-- KEYS marker
-- ARGV run_id known_since
-- sync yes
--      known_since  since when this process serves, as the front end knows whatever the marker
--                   says: in a cluster the marker of a master is in a slot, which may move
--
-- Reply  since, kept, now, in epoch ms
--        since  when this process was first seen with these data
--        kept   the last refresh of the marker by the process before; 0: these data had none
-- modules

local MARKER_MS = 30 * 86400000 -- of front ends that never come back

local now = lib.number.epoch_ms()
local known = tonumber(known_since)
local fields = call('hmget', marker, 'run_id', 'since', 'kept', 'at')
local since, kept = tonumber(fields[2]), tonumber(fields[3])

if fields[1] ~= run_id then
  since, kept = known or now, tonumber(fields[4]) or 0
  call('hset', marker, 'run_id', run_id, 'since', since, 'kept', kept)
elseif known and known < since then
  since = known
  call('hset', marker, 'since', since)
end
call('hset', marker, 'at', now)
call('pexpire', marker, MARKER_MS)
return {since, kept, now}
