-- Sets the next visits of the watchdog to those of its claimed sessions that have nothing due.
-- KEYS index homes...
-- ARGV claim in_ms ids...
-- REPLY [] next_ms others
-- sync no
--
--   index  partition of the index that has these sessions
--   homes  for each session: session, due (see lib/session_home.lua)
--   claim  that of index_claim.lua: nothing changes of a session that has not the time that the
--          claim gave it
--   in_ms  ms until the next visit, if nothing is due before
--
-- Reply  next_ms  ms until the first of the visits that are set; alone if there are no others,
--                 the common case
--        others   [place of a session among `ids`, the first is 0, ...]: these are to be
--                 visited, each on its own
--
-- No session disturbs another: no command fails at another type of key. The first write is one
-- that Redis allows when memory is short.
-- modules

local now = lib.number.epoch_ms()
local now_text, usual = lib.number.integer(now), lib.number.integer(now + in_ms)
local claimed, visits, others, first_visit = {}, {}, nil, usual

-- When the session is to be visited; nil: it has something due. Each idle session pays for it.
local function next_visit(session, due)
  local fields = try('hmget', session, 'state', 'deadline')
  -- Numbers with the same count of digits compare as text.
  if fields[1] ~= 'open' or (fields[2] or '') <= now_text then return nil end
  local first = try('zrangebyscore', due, '-inf', usual, 'withscores', 'limit', 0, 1)
  if not first[1] and not first.err then return fields[2] < usual and fields[2] or usual end
  local at = math.ceil(math.min(first[2] or now, fields[2]))
  return at > now and lib.number.integer(at) or nil
end

for _, id in ipairs(call('zrangebyscore', index, claim, claim)) do claimed[id] = true end
for i = 0, #ARGV - ARG_IDS do
  local home, id = KEY_HOMES + 2 * i, ARGV[ARG_IDS + i]
  local at = next_visit(KEYS[home], KEYS[home + 1])
  if not at then
    others = others or {}
    others[#others + 1] = i
  elseif claimed[id] then
    visits[#visits + 1] = at
    visits[#visits + 1] = id
    if at < first_visit then first_visit = at end
  end
end
if visits[1] and call('pexpire', index, lib.index.KEEP_MS) == 1 then
  call('zadd', index, 'xx', unpack(visits))
end
local next_ms = first_visit - now
return others and {next_ms, others} or next_ms
