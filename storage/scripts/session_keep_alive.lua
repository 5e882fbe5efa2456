-- Keeps a session alive for another ttl, and reads its notes and its lost leases.
-- KEYS session notes due lost
-- ARGV window_ms age_ms wait_ms
-- REPLY open as session_get.lua
-- REPLY ended as session_get.lua
-- REPLY wait-too-long ttl_ms
-- sync yes
--
-- age_ms   ms since the keep-alive arrived, from when on its ttl counts
-- wait_ms  ms that the client wants its answer held: at most half of the ttl
--
-- Replies  those of session_get.lua; the notes are with the sentinel, an empty ref
--          wait-too-long
--
-- The first write is one that Redis allows when memory is short.
-- modules

local now = lib.number.epoch_ms()
local open, reason = lib.session_home.open(session, now)
--quorum: if not open then return {'ended', reason, now} end
if not open then return {'ended', reason} end
if tonumber(wait_ms) > open.ttl / 2 then return {'wait-too-long', open.ttl} end

-- An older keep-alive that comes late does not shorten the time that a newer keep-alive gave.
local deadline = math.max(open.deadline, now - age_ms + open.ttl)
for _, key in ipairs(KEYS) do call('pexpire', key, deadline - now + window_ms) end
call('hset', session, 'deadline', deadline)
return {
  'open', deadline - now, open.ttl, now - open.opened, open.name, now,
  lib.session_home.page(notes, '0'), lib.session_home.page(lost, '0')
}
