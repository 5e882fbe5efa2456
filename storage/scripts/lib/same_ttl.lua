-- Strings that are written once more and keep their TTL.

-- Writes the text of a key, unless the key is gone. The first write is a command that Redis
-- allows when memory is short. A key may be there with a TTL of 0: PEXPIRE with 0 would delete
-- the key, and SET would make another one without a TTL.
local function write(key, text)
  local left = call('pttl', key)
  if left >= 0 then call('pexpire', key, math.max(left, 1)) end
  if left ~= -2 then call('set', key, text, 'keepttl') end
end

return {write = write}
