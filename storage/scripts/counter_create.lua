-- Makes a semaphore or a latch, if the name is free: Redisson's trySetPermits(), trySetCount().
--
-- KEYS counter timeouts
-- ARGV value channel message is_permit
-- REPLY created|exists value
-- sync yes
--
--   timeouts   the ends of permits, which only a permit semaphore has
--   message    published on the channel: the semaphore or latch exists
--   is_permit  "1": a permit semaphore
--
-- Replies  created | exists | wrong-kind
-- modules
local old
if is_permit == '1' then
  old = lib.counter.read(counter)
else
  old = lib.counter.read_plain(counter, timeouts)
end
if old == false then return {'wrong-kind'} end
if old then return {'exists', old} end
call('set', counter, value)
call('publish', channel, message)
return {'created', tonumber(value)}
