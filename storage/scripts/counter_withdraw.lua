-- Takes back what one request did to a semaphore or for a latch, when its requester is gone
-- before it was answered or nobody knows what came of it: the permits that it took, or its
-- place among the waiters. Does nothing when another request with the key was told of them.
--
-- KEYS  1 semaphore   2 what its key did   3 waiters
-- ARGV  1 the key   2 the request's own mark
--
-- Reply  1: permits were given back; 0: this request had taken none
-- include lease
-- include counter

local semaphore, key, waiters = KEYS[1], KEYS[2], KEYS[3]
local mark = ARGV[2]

redis.call('zrem', waiters, mark) -- a write that is always allowed
local record = recall(key)
if not record or record.mark ~= mark then return 0 end
redis.call('del', key)
if record.answer == '' or record.taken == '0' then return 0 end
put_back(semaphore, record.taken)
return 1
