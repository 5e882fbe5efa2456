-- Strings that are written once more and keep their TTL.

-- Writes the text of a key, unless the key is gone. The first write is a command that Redis
-- allows when memory is short. A key may be there with a TTL of 0: PEXPIRE with 0 deletes the
-- key, and so does PEXPIRE with 1 where a Redis before 7.2 stands still for a ms in it. A SET
-- without XX would make another key then, without a TTL.
local function write(key, text)
  local left = call('pttl', key)
  if left >= 0 then call('pexpire', key, math.max(left, 1)) end
  if left ~= -2 then call('set', key, text, 'xx', 'keepttl') end
end

return {write = write}
