-- The waiters of a lock, as a look names them.
local keys = lib.keys

-- Ms for which the lease `ref` has waited; -1: not known. A long wait counts from the first of
-- the requests with the token, and is noted; the record has the time of the last one.
local function waited_ms(look, ref, lease)
  local since = lease and lease.since
  if look.noted then
    local _, first = lib.lock_wait.parse(try('hget', look.noted, ref), look.now)
    since = first or since
  end
  return since and since ~= '' and look.now - since or -1
end

-- Adds the values of one waiter. `ref`: of its lease, "" of a Java client; `deadline`: of its
-- request, nil: none; `place`: its holder field in a queue, or "".
local function add_waiter(look, ref, deadline, place)
  local lease, id = ref ~= '' and lib.record.find(look.lock, ref), string.gsub(ref, ':m$', '')
  local left = deadline and math.max(deadline - look.now, 0) or 0
  for _, value in ipairs({
    id, left, waited_ms(look, ref, lease), lease and lease.note or '', place
  }) do
    look.waiters[#look.waiters + 1] = value
  end
end

local function add_queued(look, waiters, most)
  local queue, places = keys.queue_of(look.lock), keys.sibling(look.lock, 'places')
  -- With no waiter to name the last index would be -1: all of the queue.
  local queued = most > 0 and call('lrange', queue, 0, most - 1) or {}
  for _, place in ipairs(queued) do
    local id = lib.field.is_ours(place) and string.match(place, '^([^:]*):0$')
    local kept = id and call('zscore', places, id)
    if not kept or tonumber(kept) > look.now then
      add_waiter(look, id or '', id and call('zscore', waiters, id), place)
    end
  end
end

local function add_registered(look, waiters, most)
  local now = look.now
  local found = call('zrangebyscore', waiters, now, '+inf', 'withscores', 'limit', 0, most)
  for i = 1, #found, 2 do add_waiter(look, found[i], found[i + 1], '') end
end

-- The number of places in the queue that are not over.
local function count_queued(look)
  local queue, places = keys.queue_of(look.lock), keys.sibling(look.lock, 'places')
  -- Places that no request asks for stay in the queue until they come to its head.
  return call('exists', queue) == 1 and
    math.max(call('llen', queue) - call('zcount', places, '-inf', look.now), 0) or 0
end

-- Looks at the waiters, and names at most `most` of them. Returns a table with
--   waiters    the values of the waiters that are named
--   count      of all waiters
--   in_queue   how many of them are in the queue of a fair lock
local function find(lock, waiters, most)
  local look = {lock = lock, now = lib.number.epoch_ms(), waiters = {}}
  look.in_queue = count_queued(look)
  local noted = keys.sibling(lock, 'long-waits')
  look.noted = most > 0 and call('exists', noted) == 1 and noted
  if look.in_queue > 0 then
    look.count = look.in_queue
    add_queued(look, waiters, most)
  else
    look.count = call('zcount', waiters, look.now, '+inf')
    add_registered(look, waiters, most)
  end
  return look
end

return {find = find}
