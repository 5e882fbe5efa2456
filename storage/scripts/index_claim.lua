-- Claims sessions whose visit is due: for a while no other front end visits them.
-- KEYS index...
-- ARGV limit claim_ms
-- sync no
--
--   KEYS      partitions of the index, looked at one after the other
--   limit     sessions at most
--   claim_ms  ms after which another front end may visit a claimed session that was not visited
--
-- Reply  claim, [session id, ...], [ms until the next visit to the partition, ...]
--        0: sessions are due still, or the limit came before the partition
--        -1: none is due later, or another type of key is in the partition's place
--
-- The first write is a command that Redis allows when memory is short.
-- modules

local now = lib.number.epoch_ms()
local claim, found, next_visits = now + claim_ms, {}, {}

-- Claims sessions of a partition.
local function claim_some(index)
  local scores = {}
  for _, session_id in ipairs(call('zrangebyscore', index, '-inf', now, 'limit', 0,
    limit - #found)) do
    scores[#scores + 1] = claim
    scores[#scores + 1] = session_id
    found[#found + 1] = session_id
  end
  call('zrem', index, '')
  call('zadd', index, unpack(scores))
end

-- Ms until the next visit of a session of a partition.
local function next_visit(index)
  local first = try('zrange', index, 0, 0, 'withscores')[2]
  return first and math.max(first - now, 0) or -1
end

for i, index in ipairs(KEYS) do
  local left = #found < tonumber(limit) and next_visit(index) or 0
  if left == 0 and #found < tonumber(limit) then
    claim_some(index)
    left = next_visit(index)
  end
  next_visits[i] = left
end
return {claim, found, next_visits}
