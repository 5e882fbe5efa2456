-- Looks at a lock: who holds it, for how long, who waits. When a lease is named and holds, the
-- caller is told so, and the request that was granted may not take it back any more.
--
-- KEYS  1 lock   2 fencing counter   3 waiters   4 lease record
--       5 holder that was forced out last
-- ARGV  1 how many waiters to name   2 holder of the lease that asks, or ""
--       3 this request's mark
--
-- Reply  remaining ms (-2: free), token or 0, [holder, holds] (of at most 2 holders), epoch ms,
--        number of waiters, [lease id, deadline in epoch ms, ...], the lease's record or "",
--        the holder that was forced out last or "", ARGV 2 again
local lock, counter, waiters, lease, forced = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local limit, holder, mark = ARGV[1], ARGV[2], ARGV[3]

local holders = redis.pcall('hrandfield', lock, 2, 'withvalues')
if holders.err then return holders end
local remaining = redis.call('pttl', lock)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local values = redis.call('mget', counter, lease, forced)
local old = values[2]
if old and holders[1] == holder then
  local state, detail, _, rest = string.match(old, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  redis.call('pexpire', lease, redis.call('pttl', lease)) -- see acquire.lua
  redis.call('set', lease, table.concat({state, detail, mark, rest}, '\n'), 'keepttl')
end
return {
  remaining, values[1] or 0, holders, now, redis.call('zcount', waiters, now, '+inf'),
  redis.call('zrangebyscore', waiters, now, '+inf', 'withscores', 'limit', 0, limit), old or '',
  values[3] or '', holder
}
