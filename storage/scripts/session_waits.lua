-- Reads the notes of the long waits of a session: of one owner, or of leases without an owner.
-- KEYS session waits
-- ARGV owner limit [question]
-- REPLY waits session_name waits
-- REPLY [wait] wait_id since owner answered note ref
-- sync no
--
-- limit     notes that a session may have
-- question  is published: the front ends of the session's waits answer it by session_wait.lua
--
-- Replies  waits: since is epoch ms; the rest: see lib/session_wait.lua
--          ended: the session is not open
-- modules

local now = lib.number.epoch_ms()
if not lib.session_home.deadline_of(session, now) then return {'ended'} end
local list = lib.session_wait.list(waits, limit, now, owner)
if question and list[1] then
  local session_id = string.match(session, '{(.*)}')
  call('publish', 'rlockd:sessions', session_id .. ' ' .. question)
end
return {'waits', call('hget', session, 'name') or '', list}
