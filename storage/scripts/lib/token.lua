-- Fencing tokens.

-- Writes the last token of a lock; `ttl` ms: how long it is known, "0": for ever.
local function put(counter, token, ttl)
  if ttl == '0' then return try('set', counter, token, 'get') end
  return try('set', counter, token, 'px', ttl, 'get')
end

-- The fencing token of a new grant: Redis' clock in microseconds, or one more than the last
-- token, whichever is greater. Nil and Redis' error: `counter` is another type of key.
--
-- It stays text: to print a Lua number and to read it costs more than a command. The write is
-- one that fails when memory is short.
local function make(counter, ttl)
  local time = call('time')
  local us = time[2]
  if #us < 6 then us = string.sub('00000' .. us, -6) end
  local token = time[1] .. us
  local last = put(counter, token, ttl)
  if not last then return token end
  if type(last) == 'table' then return nil, last end
  -- Numbers of one length compare as text, too.
  if #last == #token and last < token then return token end
  if (tonumber(last) or 0) >= tonumber(token) then
    token = string.format('%.0f', tonumber(last) + 1)
    put(counter, token, ttl)
  end
  return token
end

-- A lease that is renewed again and again outlasts no counter: the counter has its token. Not
-- the first write of a script, nor one that is refused when memory is short.
local function keep(counter, ms)
  local left = call('pttl', counter)
  if left >= 0 and left < ms then call('pexpire', counter, ms) end
end

-- The token of a lease that holds `lock`: `own`, that of its record; "" or nil: the record has
-- none, and the lock's last token is that of the lease. Nil: not known.
local function of(own, lock)
  if own and own ~= '' then return own end
  local last = try('get', lib.keys.counter_of(lock))
  return type(last) == 'string' and last or nil
end

return {put = put, make = make, keep = keep, of = of}
