-- Withdrawing a request that waits.
local record, number = lib.record, lib.number

-- Keeps the place in a queue without a request, for the next request with the token.
local function keep_place(lease, place_ms, window)
  local lock, key = lease.locks[1], lease.keys[1]
  local queues = lib.fair_queue
  try('zrem', lib.keys.sibling(lock, 'waiters'), lease.ref)
  lease.detail, lease.attempt = 'place', ''
  local keep = math.max(place_ms + window, call('pttl', key))
  call('set', key, record.format(lease, 1), 'px', number.integer(keep))
  call('zadd', queues.places_of(lock), number.epoch_ms() + place_ms, lease.id)
  queues.extend_keys(lock)
  queues.publish_end(lock, call('pttl', lock))
end

-- The request of `attempt` waits no more with the lease's token. The last request takes the
-- lease out of the line, unless a place is to be kept (`window`: the retry window). Nothing
-- happens the second time.
local function withdraw(lease, attempt, window)
  if not record.waits(lease, attempt) or lease.detail == '*' then return end
  local others = {}
  for other in string.gmatch(lease.detail .. ' ' .. lease.attempt, '%S+') do
    if other ~= attempt then others[#others + 1] = other end
  end
  local place_ms = window and lib[lease.kind].place_ms
  if others[1] then -- they wait on
    lease.attempt = table.remove(others)
    lease.detail = table.concat(others, ' ')
    lib.lease.rewrite(lease)
  elseif place_ms then
    keep_place(lease, place_ms, window)
  else
    lib.lease.unregister(lease)
    lib.lease.forget(lease)
  end
end

return {withdraw = withdraw}
