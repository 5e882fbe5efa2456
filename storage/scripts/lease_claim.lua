-- Replies whether a lease holds, for its session or for a look with the token alone. With
-- `claim` a lease that holds is listed by a keep-alive: its attempt is not withdrawn any more.
--
-- KEYS as lease_watch.lua counter...
-- ARGV as lease_watch.lua to lease_id window_ms [claim] [session]
-- REPLY held as acquire.lua
-- REPLY ended reason
-- REPLY lost reason kind
-- sync yes
--
--   KEYS       for each lock of the lease
--   window_ms  for which the token of an ended lease is known
--   claim      "1": a lease that holds is listed
--   session    id of the session that has a note of the lease; empty: whatever its session
--
-- Replies  held: token and holds of a set are one of each lock, a blank between; the record as
--                it was
--          waiting | gone: the lease neither holds nor waits | ended
--          lost: it held and is over, and is ended by this call
--          reused: the lease is of another session, or of none: nothing changes
--
-- The first write is one that Redis allows when memory is short.
-- modules lock fair read write permit
local lease = lib.record.load(lease_id)
local reply, holds, left = lib.held.answer(lease, window_ms, session)
if reply then return reply end
local text = lib.record.format(lease, 1)
if claim == '1' then lib.lease.list(lease) end
-- The fencing counter of the name, if there is one, is that of a lock.
local tokens = lease.kind == 'permit' and '0' or lib.lease.tokens_of(lease)
return {'held', tokens, left, text, table.concat(holds, ' ')}
