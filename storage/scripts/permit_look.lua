-- Looks at a permit semaphore. Changes no key: an expired permit counts as free.
--
-- KEYS semaphore timeouts waiters
-- ARGV permits_max
-- REPLY looked free_permits held_permits waiter_count permits
-- REPLY [permit] permit_id remaining_ms record
-- sync no
--
--   timeouts     zset of permit id -> end in epoch ms
--   permits_max  how many permits to name at most
--
-- Replies  looked: permit id as 32 hex digits; remaining ms -1: for ever; record or ""
--          missing | wrong-kind
-- modules
local integer, now = lib.number.integer, lib.number.epoch_ms()
local free = lib.counter.read(semaphore)
if free == false then return {'wrong-kind'} end
local over = call('zcount', timeouts, '-inf', integer(now))
local held = call('zcount', timeouts, '(' .. integer(now), '+inf')
if not free and over + held == 0 then return {'missing'} end

local function uuid_of(hex)
  return (string.gsub(hex, '^(%x%x%x%x%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x+)$',
    '%1-%2-%3-%4-%5'))
end

local shown = {}
local found = call('zrangebyscore', timeouts, '(' .. integer(now), '+inf', 'withscores',
  'limit', 0, permits_max)
for i = 1, #found, 2 do
  local hex = string.gsub(found[i], '.', function(c) return string.format('%02x', c:byte()) end)
  local ends = tonumber(found[i + 1])
  shown[#shown + 1] = hex
  shown[#shown + 1] = ends >= lib.permits.FOR_EVER and -1 or ends - now
  shown[#shown + 1] = call('get', lib.keys.sibling(semaphore, 'lease', uuid_of(hex))) or ''
end
local standing = call('zcount', waiters, '(' .. integer(now), '+inf')
return {'looked', (free or 0) + over, held, standing, shown}
