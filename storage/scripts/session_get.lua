-- Looks at a session: the reply of session_keep_alive.lua, but the session lives no longer.
-- KEYS session notes lost waits
-- ARGV [wait_limit]
-- REPLY open remaining_ms ttl_ms age_ms name now_ms notes lost on_deadlock waits
-- REPLY ended reason [now_ms]
-- sync no
--
-- wait_limit  long waits that a session may have
--
-- Replies  open: now is epoch ms; of the notes, and of the losses that no answer has named yet,
--                the first page: see session_page.lua. Only with wait_limit: what the session
--                was opened with, or "", and its long waits as in session_waits.lua
--          ended; now_ms: at a node of a quorum
-- modules

local now = lib.number.epoch_ms()
local open, reason = lib.session_home.open(session, now)
--quorum: if not open then return {'ended', reason, now} end
if not open then return {'ended', reason} end
local reply = {
  'open', open.deadline - now, open.ttl, now - open.opened, open.name, now,
  lib.session_home.page(notes, '0'), lib.session_home.page(lost, '0')
}
if wait_limit then
  reply[#reply + 1] = call('hget', session, 'on_deadlock') or ''
  reply[#reply + 1] = lib.session_wait.list(waits, wait_limit, now)
end
return reply
