-- Releases a lease of a read/write lock and grants the lock to the waiter that is next, of the
-- same worker, in one step: to write or to read. Where other readers hold the lock, or that
-- waiter may not have the lock, this is a release as any other.
--
-- KEYS lock record counter next_record waiters
-- ARGV lease_id window_ms channel next_id ttl_ms record_text keep_ms fencing_ttl_ms [unseen] [own_listeners] [timed]
-- REPLY [] as hand_over.lua
-- sync yes
-- grants yes
--
--   KEYS, ARGV  those of hand_over.lua, without the queue; lock: see lib/readers.lua
--
-- Replies  token: released, and granted to the waiter
--          0: released; if the lock is free, the waiters were told
--          1: the same of a lock that is free, since others listen
--          session id, and one of these: the same of a lease that was held in this session;
--            with `timed` of any lease, and then its token, if that is known
--          nil: nothing was done, for it is none of the common cases: a lease of kind read or
--          write, without an owner, that holds the lock
--
-- The grant's first write is one that fails when memory is short: then the lease is released.
-- modules
local nexts, readers = lib.next, lib.readers
local text, session, kind = call('get', record), nil, nil
if text then session, kind = nexts.held(text) end
if kind ~= 'read' and kind ~= 'write' then return false end
local field, read, message = lease_id .. ':0', nil, '0'
if kind == 'write' then
  field, message = field .. ':write', '1'
else
  read = readers.key_of(lock, field, 1)
end
if call('hexists', lock, field) == 0 then return false end
if read and call('exists', read) == 0 then return false end
local since = timed == '1' and lib.token.of(nexts.token_in(text), lock)
local is_alone = call('hlen', lock) == 2 -- with the mode
if not read and not is_alone then return false end

local nothing, head, tail, next_kind, token = 0, nil, nil, nil, nil
local most = tonumber(own_listeners)
if is_alone and most > 0 and nexts.others_listen(channel, most) then
  nothing = 1
elseif is_alone then
  head, tail, next_kind = nexts.find(record_text, next_record, unseen)
  if next_kind == 'read' or next_kind == 'write' then
    token = lib.token.make(counter, fencing_ttl_ms)
  end
end

-- The other readers of the same worker, of other servers and Java clients join the reader. A
-- client that listens where this server cannot know sleeps until the old end of the lock.
local function grant()
  local is_sooner, next_field = call('pttl', lock) > tonumber(ttl_ms), next_id .. ':0'
  call('hdel', lock, field)
  if read then call('del', read) end
  call('set', next_record, head .. token .. tail, 'px', keep_ms)
  if next_kind == 'read' then
    call('hset', lock, 'mode', 'read', next_field, '1')
    call('set', readers.key_of(lock, next_field, 1), next_id, 'px', ttl_ms)
    readers.publish_free(lock, message)
  else
    call('hset', lock, 'mode', 'write', next_field .. ':write', '1')
    if is_sooner then readers.wake(lock) end
  end
  call('pexpire', lock, ttl_ms)
  if unseen ~= '1' then try('zrem', waiters, next_id) end
end

if token then
  grant()
else
  local own = read and call('pttl', read) or 0
  call('hdel', lock, field)
  if read then call('del', read) end
  readers.hold_ended(lock, message, own)
end
call('set', record, '1', 'px', window_ms) -- released: see lib/record.lua
if since then return {session or '', token or nothing, since} end
if session ~= '' then return {session, token or nothing} end
return token or nothing
