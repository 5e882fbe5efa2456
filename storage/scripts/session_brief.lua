-- A session's row of a listing.
-- KEYS session notes
-- ARGV
-- sync no
--
-- Replies  remaining ms, ttl, age in ms, name, leases | nothing: the session is not open
-- modules

local now = lib.number.epoch_ms()
local open = lib.session_home.open(session, now)
if not open then return {} end
return {
  open.deadline - now, open.ttl, now - open.opened, open.name,
  math.max(call('hlen', notes) - 1, 0) -- without the sentinel
}
