-- Renews a lease that still holds: it lasts `ttl_ms` from now. A lease that has ended is never
-- renewed.
--
-- KEYS as lease_claim.lua
-- ARGV lease_id ttl_ms window_ms [watchdog]
-- REPLY held as acquire.lua
-- REPLY busy as acquire.lua
-- REPLY ended as acquire.lua
-- sync yes
--
--   KEYS       for each lock of the lease
--   window_ms  for which the lease's token is kept after its end
--   watchdog   "1": renewed by the watchdog, if the lease has a session
--
-- Replies  held: token and holds of a set are one of each lock, a blank between
--          busy: the lease only waits; see lib/holder.lua
--          ended: session id and kind where this call found a loss
--          unknown: there is no such lease
--          reused: the token is that of a permit
--
-- Every first write is one that Redis allows when memory is short.
-- The common case: a plain lock, no owner, and a lock that lasts no longer than it is to.
local counter = KEYS[KEY_COUNTER]
local is_one = #KEYS == KEY_COUNT and string.byte(record, -1) ~= 109 -- "m": the record of a set
if is_one then
  local values = call('mget', counter, record)
  local rest, session = string.match(values[2] or '',
    '^held\n\n[^\n]*\n\n[^\n]*(\n[^\n]*\n([^\n]*)\n[^\n]*\n\n)1?\nlock\n$')
  local holds = rest and try('hget', lock, lease_id .. ':0')
  if type(holds) == 'string' and values[1] and call('pttl', lock) <= tonumber(ttl_ms) then
    local keep_ms = ttl_ms + window_ms
    local text = 'held\n\n\n\n' .. ttl_ms .. rest ..
      (session ~= '' and watchdog or '') .. '\nlock\n'
    call('pexpire', lock, ttl_ms)
    local left = call('pttl', counter)
    if left >= 0 and left < keep_ms then call('pexpire', counter, keep_ms) end
    call('set', record, text, 'px', keep_ms)
    return {'held', values[1], ttl_ms, text, holds}
  end
end

-- modules lock fair read write
local leases, keep_ms = lib.lease, ttl_ms + window_ms
local lease = lib.record.load(lease_id)
if not lease then
  local holds = is_one and call('hget', lock, lease_id .. ':0')
  if not holds then return {'unknown'} end
  lib.lock.set_ttl(lib.record.plain(lease_id, lock, record), lock, ttl_ms, holds)
  lib.token.keep(counter, keep_ms)
  return {'held', lib.token.of(nil, lock) or '0', ttl_ms, '', holds}
end
local mismatch = lib.record.mismatch(lease, false)
if mismatch then return mismatch end
if lease.state == 'ended' then return leases.ended_reply(lease) end
if lease.state == 'waiting' then return lib.holder.busy_all(lease) end

local holds = leases.holds_of(lease)
if not holds then return leases.lost_reply(lease, window_ms) end
if lease.session ~= '' then lease.watchdog = watchdog or '' end
-- The lease is claimed, because the client is answered `held`: the granted attempt is not
-- withdrawn any more.
lease.attempt, lease.ttl = '', ttl_ms
for i, name in ipairs(lease.locks) do
  lib[lease.kind].set_ttl(lease, name, ttl_ms, holds[i])
  lib.token.keep(lib.keys.given(i, KEY_COUNTER), keep_ms)
  call('set', lease.keys[i], lib.record.format(lease, i), 'px', keep_ms)
end
return {'held', leases.tokens_of(lease), ttl_ms, lib.record.format(lease, 1),
  table.concat(holds, ' ')}
