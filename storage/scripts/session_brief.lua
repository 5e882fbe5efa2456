-- A session's row of a listing.
-- KEYS session notes
-- ARGV
-- REPLY [] remaining_ms ttl_ms age_ms name lease_count
-- sync no
--
-- Replies  nothing: the session is not open | the values of the REPLY line
-- modules

local now = lib.number.epoch_ms()
local open = lib.session_home.open(session, now)
if not open then return {} end
return {
  open.deadline - now, open.ttl, now - open.opened, open.name,
  math.max(call('hlen', notes) - 1, 0) -- without the sentinel
}
