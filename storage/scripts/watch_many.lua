-- The watchdog's visit to several leases, each of one lock: renews those that the watchdog
-- renews, that hold a plain or a fair lock, and that have no owner. Of the other leases nothing
-- changes: lease_watch.lua visits them, each on its own.
--
-- KEYS lock record...
-- ARGV timeout_ms window_ms
-- sync no
--
--   KEYS        for each lease, at most 16 of them
--   timeout_ms  for which the leases are renewed
--   window_ms   for which the token of an ended lease is known
--
-- Replies  1: all are renewed, the common case
--          [1: renewed | 0, ...] of each lease
--
-- No lease disturbs another: no command fails at another type of key. The first write is one
-- that Redis allows when memory is short.
local keep_ms, records, renewed, missing = timeout_ms + window_ms, {}, {}, false
for i = 2, #KEYS, 2 do records[i / 2] = KEYS[i] end

for i, text in ipairs(call('mget', unpack(records))) do
  local name, key = KEYS[2 * i - 1], records[i]
  -- The record ends in watchdog, kind and an empty owner; its key ends in the lease id.
  local last = text and string.sub(text, 1, 5) == 'held\n' and string.sub(text, -8)
  if (last == '\n1\nlock\n' or last == '\n1\nfair\n') and
    try('hexists', name, string.sub(key, -36) .. ':0') == 1 then
    call('pexpire', name, timeout_ms)
    call('pexpire', key, keep_ms)
    -- The lock's last fencing token is that of the lease, and lasts as long.
    local counter = string.find(name, '{', 1, true) and 'redisson_lock_token:' .. name or
      'redisson_lock_token:{' .. name .. '}'
    local left = call('pttl', counter)
    if left >= 0 and left < keep_ms then call('pexpire', counter, keep_ms) end
    renewed[i] = 1
  else
    renewed[i], missing = 0, true
  end
end
return missing and renewed or 1
