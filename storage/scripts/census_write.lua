-- Writes a picture of the census, if the worker still has the claim.
-- KEYS census
-- ARGV worker_id picture text counts
-- sync no
--
--   census   see census_claim.lua
--   picture  held or waited
--
-- Reply  1 | 0: another worker has the claim, and nothing is changed
-- modules

if call('hget', census, 'claim') ~= worker_id then return 0 end
call('hset', census, picture, text, picture .. '_counts', counts, picture .. '_at',
  lib.number.integer(lib.number.epoch_ms()))
return 1
