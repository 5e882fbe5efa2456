-- The locks in partitions of the index of locks with long waits. Names whose waits must have
-- ended are removed.
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

local now, found, asked = lib.number.integer(lib.number.epoch_ms()), {}, 0
for _, index in ipairs(KEYS) do
  call('zremrangebyscore', index, '-inf', now)
  local names = call('zrange', index, 0, limit - 1)
  if #found + #names > tonumber(limit) then break end
  for _, name in ipairs(names) do found[#found + 1] = name end
  asked = asked + 1
end
return {asked, found}
