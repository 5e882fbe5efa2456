-- The watchdog's visit to several leases, each of one lock, at a node: renews those that the
-- watchdog renews, that hold a plain lock and that are of the session, and claims them. Of the
-- other leases, and of young votes, nothing changes: lease_watch.lua visits them, each on its
-- own.
--
-- KEYS as ../watch_many.lua
-- ARGV as ../watch_many.lua
-- sync no
--
-- Reply  of each lease that was renewed its fencing token, of each other one 0
--
-- No lease disturbs another: no command fails at another type of key. The first write is one
-- that Redis allows when memory is short.
-- modules
local keep_ms = lib.number.integer(timeout_ms + window_ms)
local records, renewed, process = {}, {}, lib.vote.process() or ''
for i = KEY_RECORD, #KEYS, KEY_COUNT do records[i / KEY_COUNT] = KEYS[i] end

-- The lines of the record of a lease that may be renewed: up to the attempt, the attempt, the
-- rest; and its token. Only the attempt of a vote has a point. A lease that is spent has a
-- detail with a blank more.
local PATTERN = '^(held\n[^\n]*\n)([^\n]*)(\n([^\n]*)\n.*\n(%d+)\n1\nlock\n)$'
local OWN = '\n' .. session .. '\n'

for i, text in ipairs(call('mget', unpack(records))) do
  local name, key = KEYS[KEY_COUNT * i + (KEY_LOCK - KEY_COUNT)], records[i]
  local head, attempt, rest, since, token = string.match(text or '', PATTERN)
  renewed[i] = 0
  if head and since == process and string.find(rest, OWN, 1, true) and
    not string.find(head, 'spent ', 1, true) and
    try('hexists', name, string.sub(key, -36) .. ':0') == 1 and
    (not string.find(attempt, '.', 1, true) or
      call('pttl', name) <= timeout_ms * 5 / 6) then
    call('pexpire', name, timeout_ms)
    call('pexpire', key, keep_ms)
    if string.find(attempt, '.', 1, true) then
      local listed = 'listed ' .. lib.number.integer(lib.number.epoch_ms())
      call('set', key, head .. listed .. rest, 'px', keep_ms)
    end
    if counters == '1' then
      lib.token.keep(lib.keys.counter_of(name), timeout_ms + window_ms)
    end
    renewed[i] = token
  end
end
return renewed
