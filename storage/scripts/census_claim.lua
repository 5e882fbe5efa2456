-- Claims the census for a worker, or keeps the claim: one worker of all front ends has it. When
-- the worker dies, its claim ends by the clock.
-- KEYS census
-- ARGV worker_id claim_ms
-- REPLY [] is_mine now_ms held_counts waited_counts
-- sync no
--
--   census    a hash: claim and until of the worker that has it, and of each picture, held and
--             waited, its text, `<picture>_at` in epoch ms and `<picture>_counts`
--   claim_ms  ms for which the claim lasts
--
-- Reply  is_mine        1: the worker has the claim now; 0: another worker has it
--        now_ms         Redis' clock in epoch ms
--        …_counts       of the last pictures; "": there is none
-- modules

local CENSUS_MS = 86400000 -- of front ends that never come back

local now = lib.number.epoch_ms()
local fields = call('hmget', census, 'claim', 'until', 'held_counts', 'waited_counts')
local is_mine = fields[1] == worker_id or not fields[2] or (tonumber(fields[2]) or 0) <= now
if is_mine then
  call('hset', census, 'claim', worker_id, 'until', lib.number.integer(now + claim_ms))
  call('pexpire', census, CENSUS_MS)
end
return {is_mine and 1 or 0, now, fields[3] or '', fields[4] or ''}
