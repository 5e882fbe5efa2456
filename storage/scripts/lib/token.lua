-- The fencing token of a new grant: Redis' clock in microseconds, or one more than the last
-- one, whatever is more. Nil and Redis' error: `counter` is another type of key.
--
-- It stays text: to print a Lua number and to read it costs more than a redis.call. Its write
-- is one that fails when memory is short.
local function next_token(counter)
  local time = redis.call('time')
  local us = time[2]
  if #us < 6 then us = string.sub('00000' .. us, -6) end
  local token = time[1] .. us
  local last = redis.pcall('set', counter, token, 'get')
  if not last then return token end
  if type(last) == 'table' then return nil, last end
  -- Numbers of one length compare as text, too.
  if #last == #token and last < token then return token end
  if (tonumber(last) or 0) >= tonumber(token) then
    token = string.format('%.0f', tonumber(last) + 1)
    redis.call('set', counter, token)
  end
  return token
end
