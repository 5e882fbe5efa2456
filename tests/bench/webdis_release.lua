-- The bare release that webdis is given.
--
-- KEYS  1 lock   2 channel
-- ARGV  1 holder
--
-- Replies  1 | nil: not the holder's
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
