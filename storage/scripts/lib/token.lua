-- The fencing token of a new grant: Redis' clock in microseconds, or one more than the last
-- one, whatever is more. Nil and Redis' error: `counter` is another type of key.
--
-- It stays text: to print a Lua number and to read it costs more than a redis.call. Its write
-- is one that fails when memory is short.
local function next_token(counter)
  local time = redis.call('time')
  local token = time[1] .. string.sub('00000' .. time[2], -6)
  local last = redis.pcall('set', counter, token, 'get')
  if type(last) == 'table' and last.err then return nil, last end
  if last and (tonumber(last) or 0) >= tonumber(token) then
    token = string.format('%.0f', tonumber(last) + 1)
    redis.call('set', counter, token)
  end
  return token
end
