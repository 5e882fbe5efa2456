-- The watchdog's visit to several leases, each of one lock: renews those that the watchdog
-- renews, that hold a plain or a fair lock, that have no owner, and that are of the session. Of
-- the other leases nothing changes: lease_watch.lua visits them, each on its own.
--
-- KEYS as lease_watch.lua
-- ARGV timeout_ms window_ms counters session
-- sync no
--
--   KEYS        for each lease, at most 16 of them
--   timeout_ms  for which the leases are renewed
--   window_ms   for which the token of an ended lease is known
--   counters    "1": the leases may be so old that the TTL of their fencing counters ends
--   session     id of the session that has notes of the leases
--
-- Replies  1: all are renewed and of plain locks, the common case
--          [1: renewed, a plain lock | 2: renewed, a fair lock | 0, ...] of each lease
--
-- No lease disturbs another: no command fails at another type of key. The first write is one
-- that Redis allows when memory is short.
-- modules

local sub, find = string.sub, string.find
local keep_ms = string.format('%d', timeout_ms + window_ms)
local records, is_common, own = {}, true, '\n' .. session .. '\n'
-- The record is the last key of each lease.
for i = KEY_RECORD, #KEYS, KEY_COUNT do records[i / KEY_COUNT] = KEYS[i] end

-- Each lease pays for a line of this loop: what a lease became takes the place of its record.
local texts = call('mget', unpack(records))
for i = 1, #records do
  local text, key, name = texts[i], records[i], KEYS[KEY_COUNT * i + (KEY_LOCK - KEY_COUNT)]
  -- The record ends in watchdog, kind and an empty owner; its key ends in the lease id.
  local last = text and sub(text, 1, 5) == 'held\n' and sub(text, -8)
  local renewed = last == '\n1\nlock\n' and 1 or last == '\n1\nfair\n' and 2 or 0
  if renewed > 0 and find(text, own, 1, true) and
    try('hexists', name, sub(key, -36) .. ':0') == 1 then
    call('pexpire', name, timeout_ms)
    call('pexpire', key, keep_ms)
    if counters == '1' then
      lib.token.keep(lib.keys.counter_of(name), timeout_ms + window_ms)
    end
  else
    renewed = 0
  end
  texts[i], is_common = renewed, is_common and renewed == 1
end
return is_common and 1 or texts
