-- Notes the names of the locks of a set, by which requests with the token alone find them.
--
-- KEYS set
-- ARGV names keep_ms
-- sync cluster
--
--   names    of the locks, a newline before each; empty: the token is spent, unless the names
--            are known
--   keep_ms  for which they are known at least
--
-- Replies  1 | spent: before there were names | reused: the token is that of another set
local old = call('get', set)
if not old then
  call('set', set, names, 'px', keep_ms)
  return 1
end
if old == '' and names ~= '' then return {'spent'} end
if old ~= names then return {'reused'} end
if call('pttl', set) < tonumber(keep_ms) then call('pexpire', set, keep_ms) end
return 1
