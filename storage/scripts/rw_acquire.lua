-- Acquires a read/write lock for one lease, to read or to write, or confirms that this very
-- lease holds it, or registers the lease as a waiter. Readers share; an owner that writes may
-- read, too.
--
-- KEYS as acquire.lua
-- ARGV as acquire.lua
-- sync yes
-- grants yes
--
--   KEYS, ARGV  those of acquire.lua; lock: see lib/readers.lua
--
-- Replies  those of acquire.lua
--          upgrade: the owner reads, and would wait for itself
--          many-reads: the owner reads as often as it may
-- modules read write
-- The common case: a free lock, and no owner. The record ends in its kind; before it are the
-- line of the token and that of the watchdog.
local head, tail, kind = string.match(record_text, '^(.*\n)(\n1?\n(%l+)\n)$')
if head and registered ~= '1' and mode ~= 'returned' and call('exists', lock, queue) == 0 then
  local token, err = lib.token.make(counter, fencing_ttl_ms)
  if not token then return err end
  if call('set', record, head .. token .. tail, 'nx', 'px', keep_ms) then
    if kind == 'read' then
      call('hset', lock, 'mode', 'read', lease_id .. ':0', '1')
      local read = lib.keys.suffixed(lock, lease_id .. ':0:rwlock_timeout:1')
      call('set', read, lease_id, 'px', ttl_ms)
    else
      call('hset', lock, 'mode', 'write', lease_id .. ':0:write', '1')
    end
    call('pexpire', lock, ttl_ms)
    return token
  end
end

local requests = lib.request
local request = requests.read(lease_id, ttl_ms, record_text, keep_ms, wait_ms, mode,
  registered)

local reply = requests.answer(request) or requests.refusal(request)
if reply then return reply end

local found
reply, found = lib.read_write_request.refusal(request, lock)
if reply and reply[1] ~= 'busy' then return requests.refuse(request, reply) end
if reply then return requests.register_waiter(request) or reply end

-- A fencing token of its own, or that of the owner that holds already. The first write is one
-- that fails when memory is short.
local token, err = found.token, nil
if token then
  requests.attach(request, {token})
  lib.token.keep(counter, tonumber(keep_ms))
else
  token, err = lib.token.make(counter, fencing_ttl_ms)
  if not token then return requests.refuse(request, err) end
  requests.attach(request, {token})
end
return requests.granted(request, lib.read_write_request.take(request, lock, found))
