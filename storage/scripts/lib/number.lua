-- Numbers as text, and the clock.

local function integer(number) return string.format('%d', number) end

local function epoch_ms()
  local time = call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

return {integer = integer, epoch_ms = epoch_ms}
