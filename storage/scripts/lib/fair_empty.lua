-- Whether clients wait for a lock in the queue of fair locks.
local queues = lib.fair_queue

-- Whether no client waits in a queue of that name. Places whose requests may be on their way
-- back to a Redis that was away are not touched.
local function is_empty(lock)
  local count, now = queues.length(lock), lib.number.epoch_ms()
  return count == 0 or count and not queues.head_of(lock, now - queues.PLACE_MS, false, 0)
end

return {is_empty = is_empty}
