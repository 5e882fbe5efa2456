-- Claims sessions, or queues of fair locks, whose visit is due: for a while no other front end
-- visits them.
-- KEYS index...
-- ARGV limit claim_ms
-- REPLY [] claim found next_visits
-- sync no
--
--   KEYS      partitions of the index, looked at one after the other
--   limit     members at most
--   claim_ms  ms after which another front end may visit a claimed member that was not visited;
--             at a node of a quorum the claim itself, which is one number at all nodes. By the
--             clock of one that is far ahead it is past: the claim lasts a second there
--
-- Reply  the claim, the claimed members, ms until the next visit to each partition
--        0: members are due still, or the limit came before the partition
--        -1: none is due later, or another type of key is in the partition's place
--
-- The first write is a command that Redis allows when memory is short.
-- modules

local now = lib.number.epoch_ms()
--quorum: claim_ms = claim_ms - now
--quorum: if claim_ms <= 0 then claim_ms = 1000 end
local claim, found, next_visits = now + claim_ms, {}, {}

-- Claims members of a partition. Returns the ms until the next visit to the partition.
local function claim_some(index)
  local most = limit - #found
  if most == 0 then return 0 end
  local first, scores, next_at = try('zrange', index, 0, most, 'withscores'), {}, nil
  for i = 1, #first, 2 do
    local at = tonumber(first[i + 1])
    if at > now or #scores == 2 * most then
      next_at = at
      break
    end
    scores[i], scores[i + 1] = claim, first[i]
    found[#found + 1] = first[i]
  end
  if scores[1] then
    if #found == #scores / 2 then call('zrem', index, '') end
    call('zadd', index, unpack(scores))
    next_at = math.min(next_at or claim, claim)
  end
  return next_at and math.max(next_at - now, 0) or -1
end

for i, index in ipairs(KEYS) do next_visits[i] = claim_some(index) end
return {claim, found, next_visits}
