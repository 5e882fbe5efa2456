-- The locks in partitions of the index of locks with long waits. Names whose waits must have
-- ended are removed.
-- KEYS index...
-- ARGV limit
-- sync no
--
--   index  see census_wait.lua
--   limit  names of a partition at most: those whose waits end first
--
-- Reply  names of locks, with the key prefix
-- modules

local now, found = lib.number.integer(lib.number.epoch_ms()), {}
for _, index in ipairs(KEYS) do
  call('zremrangebyscore', index, '-inf', now)
  for _, name in ipairs(call('zrange', index, 0, limit - 1)) do found[#found + 1] = name end
end
return found
