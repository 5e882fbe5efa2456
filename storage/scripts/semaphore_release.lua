-- Gives permits to a semaphore and wakes waiters. As with Redisson there is no upper bound but
-- that of the number, nobody has to have taken them, and a semaphore that is not there is made.
--
-- KEYS  1 semaphore   2 the ends of permits, which it must not have   3 waiters
--       4 what the request's idempotency key did, if it has one
-- ARGV  1 permits   2 channel   3 retry window in ms   4 the most that it may have
--
-- Replies  released, free permits, permits | replayed, the same once more
--          reused | wrong-kind | too-large, free permits
--
-- It works when memory is short: the first write, of no effect, is one that Redis allows.
-- include counter

local semaphore, timeouts, waiters, key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local permits, channel, window, max = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local asked = asked_for('release', permits, semaphore)
local free = read_plain_counter(semaphore, timeouts)
local said = key and replay(key, recall(key), asked, '')
if said then return said end
if free == false then return {'wrong-kind'} end
if (free or 0) + permits > tonumber(max) then return {'too-large', free} end
redis.call('zrem', waiters, '')
local total = redis.call('incrby', semaphore, permits)
-- A semaphore may owe permits; Redisson's listeners want a positive number.
if total > 0 then redis.call('publish', channel, decimal(total)) end
if key then remember(key, asked, '', permits, decimal(total), window) end
return {'released', total, tonumber(permits)}
