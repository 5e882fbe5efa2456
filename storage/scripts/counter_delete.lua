-- Deletes a semaphore or a latch, permits and all. Waiters of the semaphore go on
-- waiting for a new semaphore; waiters of the latch find it at zero.
--
-- KEYS as counter_create.lua [deleted]
-- ARGV is_permit channel message window_ms
-- sync yes
--
--   timeouts          the ends of permits, which only a permit semaphore has
--   is_permit         "1": a permit semaphore
--   channel, message  of its end; empty: none is sent
--   deleted           of a plain semaphore: the mark for withdrawals that come late, which
--                     lasts as long as what a request did: `window_ms`
--
-- Replies  deleted | missing | wrong-kind
-- modules
local old
if is_permit == '1' then
  old = lib.counter.read(counter)
  if old == nil and call('zcard', timeouts) > 0 then old = 0 end
else
  old = lib.counter.read_plain(counter, timeouts)
end
if old == nil then return {'missing'} end
if not old then return {'wrong-kind'} end
call('del', counter)
if is_permit == '1' then call('unlink', timeouts) end -- up to a million permits
if deleted then call('set', deleted, '1', 'px', window_ms) end
if channel ~= '' then call('publish', channel, message) end
return {'deleted'}
