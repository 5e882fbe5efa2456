-- The watchdog's visit to the queue of a fair lock: removes the places of requests that are
-- gone, for which Java clients would wait.
-- KEYS lock
-- ARGV [lost_ms]
-- sync no
--
--   lost_ms  of the front end that visits: see fair_acquire.lua
--
-- Reply  ms until the next visit; -1: none is needed
--
-- The first write is one that Redis allows when memory is short.
-- modules
local queues = lib.fair_queue

return queues.length(lock) and
  queues.visit(lock, lib.number.epoch_ms(), tonumber(lost_ms) or 0) or -1
