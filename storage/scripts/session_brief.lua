-- A session's row of a listing.
-- KEYS session notes
-- ARGV
-- REPLY [] remaining_ms ttl_ms age_ms name lease_count [indexed]
-- sync no
--
-- Replies  nothing: the session is not open | the values of the REPLY line; `indexed`, of a
--          node of a quorum only: 1 if the index of sessions there has the session, else 0
-- modules

local now = lib.number.epoch_ms()
local open = lib.session_home.open(session, now)
if not open then return {} end
local row = {
  open.deadline - now, open.ttl, now - open.opened, open.name,
  math.max(call('hlen', notes) - 1, 0) -- without the sentinel
}
--quorum: local id = string.match(session, '{(.*)}')
--quorum: local index = lib.keys.companion('rlockd:sessions', string.sub(id, 1, 1))
--quorum: row[6] = type(try('zscore', index, id)) == 'string' and 1 or 0
return row
