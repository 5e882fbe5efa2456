-- Counts the sessions in partitions of their index, for the census.
-- KEYS index...
-- sync no
--
-- Reply  how many
-- modules

local count = 0
for _, index in ipairs(KEYS) do
  local found = try('zcard', index)
  count = count + (tonumber(found) or 0)
end
return count
