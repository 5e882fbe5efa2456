-- The watchdog's visit: renews a lease if its record says that the watchdog renews it.
--
-- KEYS lock record...
-- ARGV lease_id timeout_ms window_ms
-- sync no
--
--   KEYS        for each lock of the lease
--   timeout_ms  for which the lease is renewed
--   window_ms   for which the token of an ended lease is known
--
-- Replies  1: renewed, a lock | renewed, kind | waiting
--          ends, ms: the lease ends in so many ms, without a renewal
--          gone: the lease neither holds nor waits | ended, reason, ""
--          lost, reason, kind: it held and is over, and is ended by this call
--
-- The first write is one that Redis allows when memory is short.
local record = KEYS[2]

-- The common case: one lock, and a lease without an owner. Its record ends in watchdog, kind
-- and an empty owner; the key of a set's record ends in "m".
if #KEYS == 2 and string.byte(record, -1) ~= 109 then
  local text = call('get', record)
  local last = text and string.sub(text, 1, 5) == 'held\n' and string.sub(text, -8)
  if (last == '\n1\nlock\n' or last == '\n1\nfair\n') and
    try('hexists', lock, lease_id .. ':0') == 1 then
    local keep_ms = timeout_ms + window_ms
    call('pexpire', lock, timeout_ms)
    call('pexpire', record, keep_ms)
    -- The lock's last fencing token is that of the lease, and lasts as long.
    local counter = string.find(lock, '{', 1, true) and 'redisson_lock_token:' .. lock or
      'redisson_lock_token:{' .. lock .. '}'
    local left = call('pttl', counter)
    if left >= 0 and left < keep_ms then call('pexpire', counter, keep_ms) end
    return 1
  end
end

-- modules lock fair read write permit
local lease = lib.record.read(lease_id, 2, 2)
local reply, _, left = lib.held.answer(lease, window_ms)
if reply then return reply end

if lease.watchdog ~= '1' then return {'ends', left > 0 and left or tonumber(timeout_ms)} end
for i, name in ipairs(lease.locks) do
  call('pexpire', lease.keys[i], timeout_ms + window_ms)
  lib[lease.kind].extend(lease, name, timeout_ms)
  lib.token.keep(lib.keys.counter_of(name), timeout_ms + window_ms)
end
return {'renewed', lease.kind}
