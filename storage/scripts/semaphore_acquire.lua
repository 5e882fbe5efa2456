-- Takes permits from a semaphore, all or none, for a request with an idempotency key: one of
-- the client's, or one that the server made so that the request can be taken back.
--
-- KEYS  1 semaphore: free permits   2 the ends of permits, which it must not have   3 waiters
--       4 what the key did
-- ARGV  1 permits   2 the key   3 this request's own mark   4 retry window in ms
--       5 ms for which to be registered as a waiter when there are too few; 0: not
--       6 "1": this request is registered, and leaves when it gets them
--
-- Replies  granted, free permits, permits taken | replayed, the same once more
--          busy, free permits | reused | wrong-kind
--
-- The first write of a grant is one that fails when memory is short, so it is never half made.
-- include counter

local semaphore, timeouts, waiters, key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local permits, key_id, mark, window, wait = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local registered = ARGV[6] == '1'

local asked = asked_for('acquire', permits, semaphore)
local free = read_plain_counter(semaphore, timeouts)
local old = recall(key)

local function leave(reply)
  if registered then redis.call('zrem', waiters, mark) end
  return reply
end

local said = replay(key, old, asked, mark)
if said then return leave(said) end
if free == false then return leave({'wrong-kind'}) end
if free and free >= tonumber(permits) then
  local left = free - permits
  remember(key, asked, mark, permits, decimal(left), window)
  redis.call('decrby', semaphore, permits)
  if old and old.mark ~= mark then -- another request waits with the same key
    redis.call('publish', 'rlockd:leases', key_id .. ' ' .. semaphore)
  end
  return leave({'granted', left, tonumber(permits)})
end
if tonumber(wait) > 0 then
  remember(key, asked, mark, '0', '', decimal(math.max(wait + window, redis.call('pttl', key))))
  stand_among(waiters, mark, wait, window)
end
return {'busy', free or 0}
