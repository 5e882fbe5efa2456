-- Numbers as text, and the clock.

local function integer(number) return string.format('%d', number) end

-- The same for a message to Redisson's listeners, which read an int of Java.
local function java_int(number) return integer(math.min(number, 2147483647)) end

local function epoch_ms()
  local time = call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

return {integer = integer, java_int = java_int, epoch_ms = epoch_ms}
