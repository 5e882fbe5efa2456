-- Acquires a read/write lock for one lease, to read or to write, or confirms that this very
-- lease holds it, or registers the lease as a waiter. Readers share; an owner who writes may
-- read, too.
--
-- KEYS  1 lock: see lib/read_write.lua   2 fencing counter
--       3 the queue of a fair lock of that name
-- ARGV  those of lib/request.lua; kind is "read" or "write"
--
-- Replies  those of acquire.lua | upgrade: the owner reads, and would wait for itself
-- include token
local lock, counter = KEYS[1], KEYS[2]
local wanted = {lock = lock}
-- include read_write_request

local said = settled()
if said then return said end
local no = objection()
if no then return refuse(no) end

local against, there = read_write_objection(lock)
if against and against[1] ~= 'busy' then return refuse(against) end
if against then
  if tonumber(wait) > 0 then stand_in_line() end
  return against
end

-- A fencing token of its own, or that of the owner who holds already. The first write is one
-- that fails when memory is short.
local token, err = there.token, nil
if not token then token, err = next_token(counter) end
if not token then return refuse(err) end
bind(token)
local count = take_read_write(lock, there)
stop_waiting()
return {'granted', token, ttl, '', count}
