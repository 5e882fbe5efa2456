-- Shared by the scripts of a session's home.
--
-- rlockd:session:{<id>}         hash: state (open, ended), reason, ttl, name, opened, deadline
--                               (epoch ms), released (leases released at its end), on_deadlock
--                               ("refuse", or missing)
-- rlockd:session-leases:{<id>}  hash, the notes: ref -> "<epoch ms> <attempt> <attempt>...":
--                               the requests that ask for the lease or got it, and when the
--                               newest of them was noted. " +" and the lease's kind among the
--                               attempts are the mark of a lease that was renewed
-- rlockd:session-due:{<id>}     zset: ref -> epoch ms when the watchdog looks at the lease, and
--                               a half if the note has the mark for sure; has the same members
--                               as the notes
-- rlockd:session-lost:{<id>}    hash: ref -> reason and kind, a newline between, to be told; at
--                               a node of a quorum, before the reason, epoch ms when the loss
--                               was noted and a blank; there also marks of losses that were
--                               told: see quorum/session_told.lua
--
-- A ref is a lease id, a blank and the name of its lock; of several locks each name after a
-- newline. All four keys last until the session's deadline and the retry window after it.
-- While the session is open the notes and the zset have a sentinel, an empty ref: a lease that
-- is noted finds both keys with the TTL that the session's opening or a keep-alive gave them.
-- The value of the notes' sentinel is the number of further locks: of each lease of several
-- locks, all locks but the first. Empty: 0. So the locks of a session are its leases and the
-- further locks.

-- The deadline of a session that is open; else nil and the reason ("unknown": there is no such
-- session). `fields`: the session's state, reason and deadline.
local function check(fields, now)
  if not fields[1] then return nil, 'unknown' end
  if fields[1] == 'ended' then return nil, fields[2] end
  local deadline = tonumber(fields[3])
  if deadline <= now then return nil, 'expired' end
  return deadline
end

-- The fields of a session that is open; else nil and the reason.
local function open(session, now)
  local fields = call('hmget', session, 'state', 'reason', 'deadline', 'ttl', 'name',
    'opened')
  local deadline, reason = check(fields, now)
  if not deadline then return nil, reason end
  return {deadline = deadline, ttl = tonumber(fields[4]), name = fields[5], opened = fields[6]}
end

-- The deadline of a session that is open, and when the session was opened; else nil and the
-- reason. Each visit of the watchdog pays for it.
local function deadline_of(session, now)
  local fields = call('hmget', session, 'state', 'reason', 'deadline', 'opened')
  local deadline, reason = check(fields, now)
  return deadline, reason or fields[4]
end

-- Reads a page, some hundred fields, of the hash of a session's notes or losses. Returns the
-- cursor of the next page, "0" after the last page, and the fields with their values. A field
-- may be in two pages.
local function page(key, cursor) return call('hscan', key, cursor, 'count', 100) end

-- The number of locks of a lease beyond its first lock.
local function further_locks(ref)
  local _, names = string.gsub(ref, '\n', '')
  return math.max(names - 1, 0)
end

-- Removes the note of a lease. Returns how many notes were removed, 0 or 1.
local function forget(notes, ref)
  local count = call('hdel', notes, ref)
  if count == 0 or not string.find(ref, '\n', 1, true) then return count end
  local further = further_locks(ref)
  -- A session that has ended has no sentinel, and must not get one without a TTL.
  local counted = further > 0 and tonumber(call('hget', notes, ''))
  if counted then call('hset', notes, '', math.max(counted - further, 0)) end
  return count
end

return {
  open = open, deadline_of = deadline_of, page = page, further_locks = further_locks,
  forget = forget
}
