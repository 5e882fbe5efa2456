-- Reads a picture of the census.
-- KEYS census
-- ARGV picture
-- REPLY [] age_ms now_ms text
-- sync no
--
--   census   see census_claim.lua
--   picture  held or waited
--
-- Reply  age_ms  ms since the picture was written; -1: there is none
--        now_ms  Redis' clock in epoch ms
--        text    as census_write.lua got it
-- modules

local now = lib.number.epoch_ms()
local fields = call('hmget', census, picture, picture .. '_at')
if not fields[1] then return {-1, now, ''} end
return {math.max(now - (tonumber(fields[2]) or 0), 0), now, fields[1]}
