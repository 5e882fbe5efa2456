-- Ends a session and releases its leases, a batch at a time: call it until nothing is left. The
-- same again gives the same reply within the retry window.
--
-- KEYS  1 session
-- ARGV  1 session id   2 retry window in ms   3 how many leases to release at most
--
-- Replies  released, leases released so far, leases left | ended, reason
-- include lease
-- include session

local session = KEYS[1]
local session_id, window, batch = ARGV[1], ARGV[2], ARGV[3]

local now = epoch_ms()
local state, reason = session_state(session_id, now)
if not state and reason ~= 'released' then return {'ended', reason} end
local left = end_some(session_id, 'released', now, batch, window)
return {'released', tonumber(redis.call('hget', session, 'released')), left}
