-- Looks at a session: the reply of session_keep_alive.lua, but the session lives no longer.
-- KEYS session notes lost
-- ARGV
-- sync no
--
-- Replies  open, remaining ms, ttl, age in ms, name, now in epoch ms,
--            [cursor, [ref, note, ...]], [cursor, [ref, reason and kind, ...]] of the losses
--            that no answer has named yet: the first page of each, see session_page.lua
--          ended, reason
-- modules

local now = lib.number.epoch_ms()
local open, reason = lib.session_home.open(session, now)
if not open then return {'ended', reason} end
return {
  'open', open.deadline - now, open.ttl, now - open.opened, open.name, now,
  lib.session_home.page(notes, '0'), lib.session_home.page(lost, '0')
}
