-- The locks in partitions of the index of locks with long waits. Names whose waits must have
-- ended are removed, some in each call.
-- KEYS index...
-- ARGV limit
-- REPLY [] asked names
-- sync no
--
--   index  see census_wait.lua
--   limit  names at most, and of a partition: those whose waits end first
--
-- Reply  asked  how many of the partitions, the first ones, the names are all of: the others
--               would make them too many
--        names  of locks, with the key prefix
-- modules

-- The largest number of ended waits that one call removes: the next call goes on.
local REMOVED_MAX = 1000

local now, found, asked = lib.number.integer(lib.number.epoch_ms()), {}, 0
local left = REMOVED_MAX
for _, index in ipairs(KEYS) do
  local over = call('zrangebyscore', index, '-inf', now, 'limit', 0, left)
  if over[1] then call('zrem', index, unpack(over)) end
  left = left - #over
  local names = call('zrangebyscore', index, '(' .. now, '+inf', 'limit', 0, limit)
  if #found + #names > tonumber(limit) then break end
  for _, name in ipairs(names) do found[#found + 1] = name end
  asked = asked + 1
end
return {asked, found}
