-- Withdrawing a request that waits.
local record, number = lib.record, lib.number

-- Keeps the place in a queue without a request, for the next request with the token.
local function keep_place(lease, place_ms, window)
  local lock, key = lease.locks[1], lease.keys[1]
  local queues = lib.fair_queue
  call('zrem', lib.keys.sibling(lock, 'waiters'), lease.ref)
  lease.detail, lease.attempt = 'place', ''
  local keep = math.max(place_ms + window, call('pttl', key))
  call('set', key, record.format(lease, 1), 'px', number.integer(keep))
  call('zadd', queues.places_of(lock), number.epoch_ms() + place_ms, lease.id)
  queues.extend_keys(lock)
  queues.publish_end(lock, call('pttl', lock))
end

-- The request of `attempt` waits no more with the lease's token. The last request takes the
-- lease out of the line, unless a place is to be kept (`window`: the retry window).
local function withdraw(lease, attempt, window)
  local place_ms = window and lib[lease.kind].place_ms
  if lease.detail == 'shared' then
    -- The other request waits on. The attempt that left is noted: it may be withdrawn again.
    lease.detail, lease.attempt = attempt, ''
    lib.lease.rewrite(lease)
  elseif lease.attempt ~= attempt and
    (lease.attempt ~= '' or lease.detail == attempt or lease.detail == 'place') then
    return
  elseif place_ms then
    keep_place(lease, place_ms, window)
  else
    lib.lease.unregister(lease)
    call('del', unpack(lease.keys))
  end
end

return {withdraw = withdraw}
