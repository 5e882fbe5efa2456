-- What the scripts of a session's home share.
--
-- rlockd:session:{<id>}         hash: state (open, ended), reason, ttl, name, opened, deadline
--                               (epoch ms), released (leases released at its end)
-- rlockd:session-leases:{<id>}  hash, the notes: ref -> "<epoch ms> <attempt> <attempt>...":
--                               the requests that ask for the lease or got it, and when the
--                               newest of them was noted. " +" and the lease's kind among the
--                               attempts are the mark of a lease that was renewed
-- rlockd:session-due:{<id>}     zset: ref -> epoch ms when the watchdog looks at the lease, and
--                               a half if the note has the mark for sure; has the same members
--                               as the notes
-- rlockd:session-lost:{<id>}    hash: ref -> reason and kind, a newline between, to be told
--
-- A ref is a lease id, a blank and the name of its lock; of several locks each name after a
-- newline. All four keys last until the session's deadline and the retry window after it.
-- While the session is open the notes and the zset have a sentinel, an empty ref: a lease that
-- is noted finds both keys with the TTL that the session's opening or a keep-alive gave them.

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

return {open = open, deadline_of = deadline_of, page = page}
