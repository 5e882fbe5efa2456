-- Takes back what one request did, when its requester is gone before it was answered or nobody
-- knows what came of it: a grant or a place among the waiters. Does nothing when another request
-- has been told since that the lease holds, or waits with the same token.
--
-- KEYS  1 lock   2 lease record   3 waiters
-- ARGV  1 holder   2 lease id   3 unlock channel   4 the request's own mark
--
-- Reply  1: a grant was undone; 0: there was none of this request's
local lock, lease, waiters = KEYS[1], KEYS[2], KEYS[3]
local holder, lease_id, channel, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local old = redis.call('get', lease)
if old then
  local state, detail, granted_by = string.match(old, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n')
  if state == 'ended' or granted_by ~= mark then return 0 end
  if state == 'waiting' and detail == 'shared' then return 0 end
  redis.call('del', lease)
  if state == 'waiting' then
    redis.call('zrem', waiters, lease_id)
    return 0
  end
end
if redis.call('hdel', lock, holder) == 0 then return 0 end
redis.call('publish', channel, '0')
return 1
