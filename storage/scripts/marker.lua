-- Refreshes the marker: which Redis process serves these data, since when, and how old the data
-- were that the process began with. So front ends learn that Redis may have lost data.
-- KEYS marker
-- ARGV run_id layout [known_since] [known_promotion] [elsewhere]
-- REPLY [] since_ms kept_ms now_ms promotion
-- sync yes
--
--   layout           the layout of the front end's keys. A marker without this field is of
--                    layout 1: of front ends that knew no number, and leave the field alone
--   known_since      since when this process serves, as the front end knows whatever the marker
--                    says: in a cluster the marker of a master is in a slot, which may move
--   known_promotion  the promotion that the front end knew then
--   elsewhere        when the front end last saw that another process served, in epoch ms
--
-- A process that is demoted and promoted again has the data of another process, as a new
-- process has. Each promotion changes master_replid2, the id of the replication that the
-- process left. Redis forgets that id, and is the same master, when it has had no replica for
-- an hour.
--
-- A process that served before `elsewhere` and has been no replica since lacks what that other
-- process did: it begins anew. Its begin is compared, and not the last refresh, which another
-- front end may have made since the process came back.
--
-- Replies  since, kept, now, promotion
--          layout: the data have this one, and nothing is changed
--
--        since      when this process was first seen with these data, in epoch ms
--        kept       the last refresh of the marker before, in epoch ms; 0: these data had none
--        now        Redis' clock in epoch ms
--        promotion  the last promotion of this process; empty: none
-- modules

-- Of front ends that never come back; longer than any lease, the loss of which it tells.
local MARKER_MS = 400 * 86400000

local function last_promotion()
  local id = string.match(call('info', 'replication'), 'master_replid2:(%x+)')
  return id and string.find(id, '[^0]') and id or ''
end

local now = lib.number.epoch_ms()
local fields = call('hmget', marker, 'run_id', 'since', 'kept', 'at', 'promotion', 'layout')
local found = fields[6] or fields[1] and '1'
if found and found ~= layout then return {found} end
local since, kept = tonumber(fields[2]), tonumber(fields[3])
local promotion = last_promotion()
local known = (promotion == '' or promotion == known_promotion) and tonumber(known_since)

if promotion == '' and fields[1] == run_id then promotion = fields[5] or '' end
if fields[1] ~= run_id or fields[5] and fields[5] ~= promotion or
  since < (tonumber(elsewhere) or 0) then
  since, kept = known or now, tonumber(fields[4]) or 0
  call('hset', marker, 'run_id', run_id, 'since', since, 'kept', kept)
elseif known and known < since then
  since = known
  call('hset', marker, 'since', since)
end
call('hset', marker, 'at', now, 'promotion', promotion, 'layout', layout)
call('pexpire', marker, MARKER_MS)
return {since, kept, now, promotion}
