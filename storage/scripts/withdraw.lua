-- Takes back what one request did, when its requester is gone before it was answered or nobody
-- knows what came of it: a grant or a place among the waiters. Does nothing when another
-- request has been told since that the lease holds, or waits with the same token.
--
-- KEYS  1 lock   2 lease record   3 waiters, for withdrawals of other kinds
-- ARGV  1 lease id   2 the request's own mark
--       3 "1": the request made the token, so nobody else can have asked with it
--       4 "1": the place in a fair lock's queue stays, for the next request with the token
--       5 retry window in ms
--       6 of several locks: their names, a newline before each
--
-- Reply  1: a grant was undone; 0: there was none of this request's
-- include lease

local lock, lease = KEYS[1], KEYS[2]
local lease_id, mark = ARGV[1], ARGV[2]

local old = parse(redis.call('get', lease) or nil)
if not old then
  if ARGV[3] ~= '1' or redis.call('hexists', lock, lease_id .. ':0') == 0 then return 0 end
  take_hold_off({kind = 'lock', owner = ''}, lease_id, lock)
  return 1
end
if names_of(old) ~= (ARGV[6] or lock) or old.state == 'ended' then return 0 end
if old.state == 'waiting' then
  stop_waiting_with(old, lease_id, mark, ARGV[4] == '1' and old.kind == 'fair' and ARGV[5])
  return 0
end
if old.mark ~= mark then return 0 end
local undone = let_go(old, lease_id)
unbind(old, lease_id)
redis.call('del', lease)
return undone and 1 or 0
