-- Claims sessions that are to be visited: for a while no other front end visits them.
-- KEYS index
-- ARGV limit claim_ms
-- sync no
--
-- limit     sessions at most
-- claim_ms  ms until a session that was claimed and not visited is visited by another front end
--
-- Reply  claim, [session id, ...], ms until the next visit that is to come, -1: none is
--
-- The first write is one that Redis allows when memory is short.
-- modules

local now = lib.number.epoch_ms()
local claim = now + claim_ms
local found = call('zrangebyscore', index, '-inf', now, 'limit', 0, limit)
if #found > 0 then
  local scores = {}
  for i, session_id in ipairs(found) do
    scores[2 * i - 1], scores[2 * i] = claim, session_id
  end
  call('zrem', index, '')
  call('zadd', index, unpack(scores))
end
local first = call('zrange', index, 0, 0, 'withscores')[2]
return {claim, found, first and math.max(first - now, 0) or -1}
