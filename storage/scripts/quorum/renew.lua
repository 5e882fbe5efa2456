-- Renews a lease that holds at this node, and claims it. A renewal that comes late, after a
-- later one, must not take time from the lease: so where the lease lasts longer, or its
-- watchdog differs, it is only marked, and gets more time if it lasts less. The front end sends
-- the renewal again to a node whose reply it has, and where the mark is still there no other
-- renewal has come between.
--
-- KEYS as ../renew.lua
-- ARGV as ../renew.lua mark
-- REPLY held|marked as ../renew.lua now_ms
-- REPLY busy remaining_ms field holds text token number now_ms
-- REPLY spent reason forced_by now_ms
-- REPLY lapsed|unknown|restarted|ends now_ms
-- sync yes
--
--   watchdog  as in ../renew.lua; or "visit": the watchdog renews what is in its care, and
--             shortens nothing
--   mark      a number of this renewal alone
--
-- Replies  held, busy (the lease only waits), reused: those of renew.lua
--          marked: as held, but the renewal is to be sent again
--          spent: the lease is, and a hold that is left is not renewed
--          lapsed: its hold has ended here | unknown: there is no record
--          restarted: the hold is older than the node's process: a repair has to confirm it
--          ends: at a visit: the lease is not in the watchdog's care any more
--          now_ms: the node's clock, for the deadline of a repair
-- Every first write is one that Redis allows when memory is short.
-- The common case, without modules: a plain lock that lasts no longer than it is to.
local is_visit, own_mark = watchdog == 'visit', 'by ' .. mark
local keep_ms, text = ttl_ms + window_ms, #KEYS == KEY_COUNT and not is_visit and
  call('get', record)
local detail, since, rest, session, token, care = string.match(text or '',
  '^held\n([^\n]*)\n[^\n]*\n([^\n]*)\n[^\n]*(\n[^\n]*\n([^\n]*)\n[^\n]*\n(%d+)\n)(1?)' ..
  '\nlock\n$')
local own_care = (session or '') ~= '' and watchdog or ''
if since and since == call('hget', 'rlockd:marker', 'since') and
  not string.find(detail, 'spent ', 1, true) and string.byte(record, -1) ~= 109 then
  local holds = (care == own_care or detail == own_mark) and
    try('hget', lock, lease_id .. ':0')
  if type(holds) == 'string' and call('pttl', lock) <= tonumber(ttl_ms) then
    local counter = KEYS[KEY_COUNTER]
    text = 'held\n\n\n' .. since .. '\n' .. ttl_ms .. rest .. own_care .. '\nlock\n'
    call('pexpire', lock, ttl_ms)
    local left = call('pttl', counter)
    if left >= 0 and left < keep_ms then call('pexpire', counter, keep_ms) end
    call('set', record, text, 'px', keep_ms)
    local time = call('time')
    return {
      'held', token, ttl_ms, text, holds, time[1] * 1000 + math.floor(time[2] / 1000)
    }
  end
end

-- modules lock read write
local leases, votes = lib.lease, lib.vote
local now = lib.number.epoch_ms()

local function spent(reason, by) return {'spent', reason, by or '', now} end

local lease = lib.record.load(lease_id)
if not lease then return {'unknown', now} end
local mismatch = lib.record.mismatch(lease, false)
if mismatch then return mismatch end
if lease.state == 'ended' then return spent(lease.detail, leases.ended_reply(lease)[5]) end
if lease.state == 'waiting' then
  local busy = lib.holder.busy_all(lease)
  busy[7], busy[8] = busy[7] or 1, now
  return busy
end
if votes.spent_of(lease) then return spent(votes.spent_of(lease)) end

local holds = leases.holds_of(lease)
if not holds then
  if leases.loss_reason(lease) ~= 'forced' then return {'lapsed', now} end
  return spent('forced', leases.lost_reply(lease, window_ms)[5])
end
if not votes.is_confirmed(lease) then return {'restarted', now} end
if is_visit and lease.watchdog ~= '1' then return {'ends', now} end

local function lasts_longer()
  for _, name in ipairs(lease.locks) do
    if lib[lease.kind].left(lease, name) > tonumber(ttl_ms) then return true end
  end
end

own_care = lease.session ~= '' and watchdog or ''
local is_marked = not is_visit and lease.detail ~= own_mark and
  (lease.watchdog ~= own_care or lasts_longer())
if is_visit then -- no later renewal: a mark stays
  leases.list(lease)
  lease.detail = string.match(lease.detail, '^by .*') or ''
else
  lease.attempt = ''
  lease.detail = is_marked and own_mark or ''
end
if not is_visit and not is_marked then lease.watchdog = own_care end
if not is_marked then lease.ttl = ttl_ms end
for i, name in ipairs(lease.locks) do
  local kind, last_ms = lib[lease.kind], keep_ms
  if is_visit or is_marked then
    last_ms = math.max(keep_ms, call('pttl', lease.keys[i]))
    call('pexpire', lease.keys[i], lib.number.integer(last_ms))
    kind.extend(lease, name, ttl_ms)
  else
    kind.set_ttl(lease, name, ttl_ms, holds[i])
  end
  lib.token.keep(lib.keys.counter_of(name), keep_ms)
  call('set', lease.keys[i], lib.record.format(lease, i), 'px', lib.number.integer(last_ms))
end
return {
  is_marked and 'marked' or 'held', leases.tokens_of(lease), ttl_ms,
  lib.record.format(lease, 1), table.concat(holds, ' '), now
}
