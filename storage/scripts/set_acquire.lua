-- Acquires several locks of one kind for one lease, a set, all of them or none, or confirms
-- that this very lease holds them, or registers the lease as a waiter for each.
--
-- KEYS as acquire.lua ...
-- ARGV as acquire.lua [blocking]
-- REPLY granted|held as acquire.lua
-- REPLY busy as acquire.lua number
-- REPLY ended as acquire.lua
-- REPLY wrong-kind|upgrade|too-many|many-reads number
-- sync yes
-- grants yes
--
--   KEYS, ARGV  those of acquire.lua, the keys for each lock; the locks are sorted by name, and
--               their records end in ":m"
--   blocking    number of the lock that blocked the last attempt; 0: none
--
-- Replies  reused and those of the REPLY lines
--          token and holds: one of each lock, a blank between; record: of the first lock, with
--          its token; number: of the lock, from 1
-- modules lock read write
local requests, record_of, keys = lib.request, lib.record, lib.keys
local request = requests.read(lease_id, ttl_ms, record_text, keep_ms, wait_ms, mode,
  registered)
local locks = request.locks

-- For a plain lock the same as refusal() and take() of lib/read_write_request.lua.
local plain = {}

function plain.refusal(_, lock, number)
  local remaining = call('pttl', lock)
  if remaining == -2 then
    return not lib.fair_empty.is_empty(lock) and {'wrong-kind'} or nil, {}
  end
  local field, holds, kind, text = lib.holder.only(lock)
  if not field or kind == 'fair' then return {'wrong-kind'} end
  if field ~= record_of.holder_of(request) then
    return lib.holder.busy(remaining, lock, field, holds, text, number)
  end
  return nil, {token = call('get', keys.given(number, KEY_COUNTER)) or '0'}
end

function plain.take(_, lock)
  local left = math.max(call('pttl', lock), tonumber(ttl_ms))
  local count = call('hincrby', lock, record_of.holder_of(request), 1)
  call('pexpire', lock, lib.number.integer(left))
  lib.owner.write(request, lock, lib.number.integer(left))
  return count
end

local family = request.kind == 'lock' and plain or lib.read_write_request

-- A fencing token of each lock, before any lock is taken: this may fail. Nil and a reply.
local function make_tokens(found)
  local tokens = {}
  for i = 1, #locks do
    local token, err = found[i].token, nil
    if not token then
      token, err = lib.token.make(keys.given(i, KEY_COUNTER), fencing_ttl_ms)
    end
    if not token then
      return nil, string.find(err.err, 'WRONGTYPE', 1, true) and {'wrong-kind', i} or err
    end
    tokens[i] = token
  end
  return tokens
end

local function grant(found)
  local tokens, err = make_tokens(found)
  if not tokens then return requests.refuse(request, err) end
  requests.attach(request, tokens)
  local counts = {}
  for i, lock in ipairs(locks) do
    if found[i].token then lib.token.keep(keys.given(i, KEY_COUNTER), tonumber(keep_ms)) end
    counts[i] = family.take(request, lock, found[i])
  end
  return requests.granted(request, table.concat(counts, ' '))
end

local reply = requests.answer(request) or requests.refusal(request)
if reply then return reply end

-- A waiter queues on one lock of its set. A message about another lock of the set wakes it only
-- if that lock was the one that blocked the last attempt.
local found = {}
for i, lock in ipairs(locks) do
  local refusal
  refusal, found[i] = family.refusal(request, lock, i)
  if refusal and refusal[1] ~= 'busy' then
    refusal[2] = i
    return requests.refuse(request, refusal)
  end
  if refusal and (not reply or i == tonumber(blocking)) then reply = refusal end
end
if not reply then return grant(found) end
return requests.register_waiter(request) or reply
