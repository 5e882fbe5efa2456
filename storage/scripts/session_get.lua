-- Looks at a session: the reply of session_keep_alive.lua, but the session lives no longer.
-- KEYS session notes lost
-- ARGV
-- REPLY open remaining_ms ttl_ms age_ms name now_ms notes lost
-- REPLY ended reason
-- sync no
--
-- Replies  open: now is epoch ms; of the notes, and of the losses that no answer has named yet,
--                the first page: see session_page.lua
--          ended
-- modules

local now = lib.number.epoch_ms()
local open, reason = lib.session_home.open(session, now)
if not open then return {'ended', reason} end
return {
  'open', open.deadline - now, open.ttl, now - open.opened, open.name, now,
  lib.session_home.page(notes, '0'), lib.session_home.page(lost, '0')
}
