-- Lists open sessions in pages, in no order.
--
-- KEYS  1 all sessions
-- ARGV  1 cursor of ZSCAN   2 how many of its answers an earlier page has shown   3 page size
--
-- Reply  next cursor, its number of answers shown ("0", 0 after the last page),
--        [session id, remaining ms, ttl, age in ms, name, leases, ...]
-- include lease

local sessions, cursor, skip, limit = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now = epoch_ms()
local found = redis.call('zscan', sessions, cursor, 'count', limit)
local page, last = {}, math.min(skip + limit, #found[2] / 2)
for i = skip + 1, last do
  local id, deadline = found[2][2 * i - 1], tonumber(found[2][2 * i])
  local known = redis.call('hmget', 'rlockd:session:' .. id, 'state', 'ttl', 'opened', 'name')
  if known[1] == 'open' and deadline > now then
    for _, value in ipairs({id, deadline - now, tonumber(known[2]), now - known[3], known[4],
      redis.call('hlen', 'rlockd:session-leases:' .. id)}) do
      page[#page + 1] = value
    end
  end
end
if last < #found[2] / 2 then return {cursor, last, page} end
return {found[1], 0, page}
