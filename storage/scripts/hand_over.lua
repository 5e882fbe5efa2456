-- Releases a lease and grants its lock to the waiter that is next, of the same worker, in one
-- step. Where that waiter may not have the lock, this is a release as any other.
--
-- KEYS as rw_hand_over.lua queue
-- ARGV as rw_hand_over.lua
-- REPLY [] session_id granted [token]
-- sync yes
-- grants yes
--
--   lease_id, record, window_ms  of the lease that is released: see release.lua
--   next_id, next_record         of the waiter, a lease of kind lock or fair without an owner
--   channel                      of the waiters of a plain lock
--   waiters                      zset of ref -> deadline in epoch ms
--   queue                        of a fair lock: see lib/fair_queue.lua
--   ttl_ms to fencing_ttl_ms     of the waiter: see lib/request.lua
--   unseen                       "1": the waiter, of a plain lock, has made no attempt yet, and
--                                its token must be new; else its attempt has registered it
--   own_listeners                above 0: a plain lock is handed over only if no more than so
--                                many, the workers of the server itself, listen to its channel
--   timed                        "1": the reply has the fencing token of the released lease
--
-- Replies  token: released, and granted to the waiter
--          0: released, and the waiters were told
--          1: the same, because other clients listen to the channel
--          session id, and one of these: the same of a lease that was held in this session;
--            with `timed` of any lease, and then its token, if that is known
--          nil: nothing was done, because the lease is not of kind lock or fair, has an owner,
--          or does not hold the lock
--
-- The grant's first write is one that fails when memory is short: then the lease is released.
-- modules lock fair
local nexts = lib.next
local text, session, kind = call('get', record), '', 'lock' -- most plain leases have no record
if text then session, kind = nexts.held(text) end
if (kind ~= 'lock' and kind ~= 'fair') or call('hlen', lock) ~= 1 or
  call('hexists', lock, lease_id .. ':0') == 0 then
  return false
end

local since = timed == '1' and lib.token.of(text and nexts.token_in(text), lock)

-- Of a fair lock the waiter has to be the head.
local head, tail -- of the waiter's record, before and behind its token
local function is_next()
  local next_kind
  head, tail, next_kind = nexts.find(record_text, next_record, unseen)
  if next_kind ~= kind then return false end
  if kind == 'fair' then return try('lindex', queue, 0) == next_id .. ':0' end
  return call('exists', queue) == 0 -- else Java clients ask for a fair lock
end

local nothing, token, waiters_left = 0, nil, nil
local most = tonumber(own_listeners)
if most > 0 and kind == 'lock' and nexts.others_listen(channel, most) then
  nothing = 1
elseif is_next() then
  token = lib.token.make(counter, fencing_ttl_ms)
  if token and kind == 'fair' then
    waiters_left = lib.fair_queue.give_up_head(lock, next_id)
    token = waiters_left and token
  end
end
-- NUMSUB does not count Java clients that listen at a replica: without a message they would
-- sleep until the old end.
local is_sooner = token and kind == 'lock' and call('pttl', lock) > tonumber(ttl_ms)
call('hdel', lock, lease_id .. ':0')
call('set', record, '1', 'px', window_ms) -- released: see lib/record.lua
if token then
  if kind == 'fair' then record_text = head .. token .. tail end
  call('set', next_record, record_text, 'px', keep_ms)
  call('hset', lock, next_id .. ':0', '1')
  call('pexpire', lock, ttl_ms)
  if unseen ~= '1' then try('zrem', waiters, next_id) end
  if waiters_left and waiters_left > 0 then
    lib.fair_queue.publish_end(lock, tonumber(ttl_ms))
  end
elseif kind == 'fair' then
  lib.fair.wake(lock)
end
if kind == 'lock' and (not token or is_sooner) then call('publish', channel, '0') end
if since then return {session or '', token or nothing, since} end
if session ~= '' then return {session, token or nothing} end
return token or nothing
