-- Looks at a lease of several locks. When it holds, the caller is told so, and the request that
-- was granted may not take it back any more. When one of the locks was lost it ends here.
--
-- KEYS  1 lease record
-- ARGV  1 lease id   2 retry window in ms   3 "1": only its locks are asked for
--
-- Replies  those of multi_renew.lua | free, names: what was asked for
-- include lease
-- include session
-- include several

local lease, lease_id, window = KEYS[1], ARGV[1], ARGV[2]

local old = parse(redis.call('get', lease) or nil)
if ARGV[3] == '1' then return {'free', old and old.locks and names_of(old) or ''} end
local no = told_of_several(old, lease_id, window)
if no then return no end
old.mark = ''
rewrite(old, lease_id)
return held_several(old, lease_id, time_left(old, lease_id))
