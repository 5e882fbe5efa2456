-- Looks at a semaphore whose permits expire. Changes nothing: what is over counts as free.
--
-- KEYS  1 semaphore   2 the ends of its permits   3 waiters
-- ARGV  1 how many permits to name at most
--
-- Replies  looked, free permits, permits held, waiters,
--            [permit id as 32 hex digits, remaining ms (-1: for ever), record or "", ...]
--          missing | wrong-kind
-- include counter
-- include lease
-- include permit

local semaphore, timeouts, waiters, max = KEYS[1], KEYS[2], KEYS[3], ARGV[1]

local now = epoch_ms()
local free = read_counter(semaphore)
if free == false then return {'wrong-kind'} end
local over = redis.call('zcount', timeouts, '-inf', integer(now))
local held = redis.call('zcount', timeouts, '(' .. integer(now), '+inf')
if not free and over + held == 0 then return {'missing'} end

local function uuid_of(hex)
  return (string.gsub(hex, '^(%x%x%x%x%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x+)$',
    '%1-%2-%3-%4-%5'))
end

local shown = {}
local found = redis.call('zrangebyscore', timeouts, '(' .. integer(now), '+inf', 'withscores',
  'limit', 0, max)
for i = 1, #found, 2 do
  local hex = string.gsub(found[i], '.', function(c) return string.format('%02x', c:byte()) end)
  local ends = tonumber(found[i + 1])
  shown[#shown + 1] = hex
  shown[#shown + 1] = ends >= FOR_EVER and -1 or ends - now
  shown[#shown + 1] = redis.call('get', record_key(uuid_of(hex))) or ''
end
local standing = redis.call('zcount', waiters, '(' .. integer(now), '+inf')
return {'looked', (free or 0) + over, held, standing, shown}
