-- The notes of the long waits for a lock: the hash rlockd:long-waits:{<name>}, ref of a lease
-- (its id, with ":m" of a lease of several locks) -> three words:
--
--   ends_at  epoch ms: the note counts until then. It is made again while a request waits, and
--            outlasts the request by some seconds, for the next request with the token
--   since    epoch ms when the first of these requests began to wait
--   kind     that the lease asks for

-- The note in this text as three values; nil: there is none that counts.
local function parse(text, now)
  if type(text) ~= 'string' then return nil end
  local ends_at, since, kind = string.match(text, '^(%d+) (%-?%d+) (%l+)$')
  if not ends_at or tonumber(ends_at) <= now then return nil end
  return ends_at, since, kind
end

-- Whether the lease has got the lock, or has ended, by its record. A request that is granted
-- soon does not remove the note that an earlier request with its token made.
local function is_over(lock, ref)
  local record = try('get', lib.keys.sibling(lock, 'lease', ref))
  return type(record) == 'string' and string.sub(record, 1, 8) ~= 'waiting\n'
end

-- The longest of at most `limit` waits: ref, since and kind; nil: there is none. Removes longer
-- ones that are over.
local function longest(waits, lock, limit, now)
  local found = try('hrandfield', waits, limit, 'withvalues')
  local ref, since, kind
  for i = 1, #found, 2 do
    local _, own_since, own_kind = parse(found[i + 1], now)
    if own_since and (not since or tonumber(own_since) < tonumber(since)) then
      if is_over(lock, found[i]) then
        call('hdel', waits, found[i])
      else
        ref, since, kind = found[i], own_since, own_kind
      end
    end
  end
  return ref, since, kind
end

-- Removes those of some notes, taken at random, that have ended.
local function purge(waits, limit, now)
  local found = call('hrandfield', waits, limit, 'withvalues')
  for i = 1, #found, 2 do
    if not parse(found[i + 1], now) then call('hdel', waits, found[i]) end
  end
end

return {parse = parse, longest = longest, purge = purge}
