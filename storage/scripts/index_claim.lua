-- Claims sessions whose visit is due: for a while no other front end visits them.
-- KEYS index
-- ARGV limit claim_ms
-- sync no
--
-- limit     sessions at most
-- claim_ms  ms after which another front end may visit a claimed session that was not visited
--
-- Reply  claim, [session id, ...], ms until the next visit, -1: none is due later
--
-- The first write is a command that Redis allows when memory is short.
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
