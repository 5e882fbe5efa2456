-- Takes back what one request for a permit did: withdraw.lua for permits.
--
-- KEYS  those of withdraw.lua
-- ARGV  1 lease id   2 the request's own mark
--
-- Reply  1: a grant was undone; 0: there was none of this request's
-- include lease

local semaphore, lease = KEYS[1], KEYS[2]
local lease_id, mark = ARGV[1], ARGV[2]

local old = parse(redis.call('get', lease) or nil)
if not old or old.kind ~= 'permit' or old.lock ~= semaphore or old.state == 'ended' then
  return 0
end
if old.state == 'waiting' then
  stop_waiting_with(old, lease_id, mark)
  return 0
end
if old.mark ~= mark then return 0 end
unbind(old, lease_id)
redis.call('del', lease)
return give_permit_back(semaphore, lease_id) and 1 or 0
