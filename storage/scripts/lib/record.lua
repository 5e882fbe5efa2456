-- The record of a lease: the string `rlockd:lease:{<lock>}:<ref>`, beside its lock, twelve
-- lines. C writes and reads records, too: storage/store/lease_record.h.
--
--   state         waiting or held
--   detail        of a waiting lease the attempts of the other requests that wait with the
--                 token, with blanks between them; "*": too many of them, the wait ends by its
--                 time; "place": the lease has a place in the queue of a fair lock and no
--                 request waits. Of a held lease "forced": it was force-unlocked, and has not
--                 been told so
--   attempt       the attempt that waits, or that was granted; empty once a later request has
--                 been answered "held"; `listed` and epoch ms: since then a keep-alive of the
--                 session has listed the lease, and no request has been answered "held"
--   since         epoch ms when the lease began to wait
--   ttl           ms for which the lease was acquired or renewed
--   note          and behind it, after the character 31, the caller that acquired the lease;
--                 caller and character are missing where there are no API tokens
--   session       session id; empty: none
--   session_name
--   token         fencing token of a lease of several locks, with an owner, or of a kind other
--                 than "lock"; empty: the lock's last token, until the lease ends
--   watchdog      "1": renewed while the session lives
--   kind          lock, fair, read, write or permit
--   owner         whose leases of the session share the lock; empty: none
--
-- The record of an ended lease is a small number, which takes Redis no memory besides its key:
-- the place of the reason in REASONS plus ten times `left`. After a release `left` is the
-- number of holds left; after the end of the session 1, if the lease held.
--
-- A lease of several locks, a set, has a record beside each of its locks. These records differ
-- in the token only; the first record decides. The ref of a lease is its id; of a set the id
-- and ":m".
--
-- A lease in Lua is a table of these lines (but `token`) and
--
--   id, ref, is_set
--   left                 of an ended lease: see above
--   locks, keys, tokens  lists: of each lock its name, the record's key, and the fencing token,
--                        "" where the record has none
local LINE = '([^\n]*)\n'
local PATTERN = '^' .. string.rep(LINE, 11) .. '([^\n]*)$'

local KINDS = {lock = 1, fair = 1, read = 1, write = 1, permit = 1}
local OTHERS_BYTES = 400 -- at most, of the attempts in `detail`
local REASONS = {'released', 'expired', 'forced', 'session-ended', 'unknown'}

-- The record of an ended lease. `left`: nil or false is 0.
local function ended(reason, left)
  for number, known in ipairs(REASONS) do
    if known == reason then return number + 10 * (left or 0) end
  end
  return ended('unknown', left)
end

-- The lines of a record; nil: there is no record. A text of another form counts as the record
-- of a spent token.
local function parse(text)
  if not text then return nil end
  local state, detail, attempt, since, ttl, note, session, session_name, token, watchdog, kind,
    owner = string.match(text, PATTERN)
  if not state then
    local number = string.find(text, '^%d+$') and tonumber(text) or 0
    local reason = REASONS[number % 10] or 'unknown'
    local lease = parse('ended\n' .. reason .. string.rep('\n', 10))
    lease.left = math.floor(number / 10)
    return lease
  end
  return {
    state = state, detail = detail, attempt = attempt, since = since, ttl = ttl, note = note,
    session = session, session_name = session_name, token = token, watchdog = watchdog,
    kind = kind, owner = owner
  }
end

-- The text of a lease's record beside its lock number `i`.
local function format(lease, i)
  return lease.state .. '\n' .. lease.detail .. '\n' .. lease.attempt .. '\n' ..
    lease.since .. '\n' .. lease.ttl .. '\n' .. lease.note .. '\n' .. lease.session .. '\n' ..
    lease.session_name .. '\n' .. lease.tokens[i] .. '\n' .. lease.watchdog .. '\n' ..
    lease.kind .. '\n' .. lease.owner
end

-- Whether the attempt is one of those that wait with the token of a waiting lease.
local function waits(lease, attempt)
  return lease.attempt == attempt or
    string.find(' ' .. lease.detail .. ' ', ' ' .. attempt .. ' ', 1, true) ~= nil
end

-- The `detail` of a waiting lease when one more request comes to wait with its token.
local function others_of(lease)
  if lease.detail == 'place' then return '' end
  if lease.detail == '' then return lease.attempt end
  if lease.detail == '*' or #lease.detail + #lease.attempt >= OTHERS_BYTES then return '*' end
  return lease.detail .. ' ' .. lease.attempt
end

-- The caller behind a note or a session's name, with the character before it; "": none.
local function caller_of(line) return string.match(line, '\31.*') or '' end

-- Adds the id of the lease, its lock and the record's key to the lines of a record.
local function with_key(lease, id, lock, key)
  lease.id, lease.is_set = id, string.byte(key, -1) == 109 -- "m": no hex digit, the end of ":m"
  lease.ref = lease.is_set and id .. ':m' or id
  lease.locks, lease.keys, lease.tokens = {lock}, {key}, {lease.token}
  return lease
end

-- The same for all locks in KEYS: groups of keys, of which the first is the lock.
local function with_keys(lease, id)
  with_key(lease, id, KEYS[1], KEYS[KEY_RECORD])
  for i = KEY_COUNT, #KEYS - 1, KEY_COUNT do
    local n = #lease.locks + 1
    lease.locks[n], lease.keys[n], lease.tokens[n] = KEYS[i + 1], KEYS[i + KEY_RECORD], ''
  end
  return lease
end

-- The lease whose records are in KEYS; nil: there is no record. Its kind may be any text: an
-- acquire compares the kind with its own.
local function stored(id)
  local lease = parse(call('get', KEYS[KEY_RECORD]))
  if not lease then return nil end
  with_keys(lease, id)
  for i = 2, #lease.locks do
    local other = parse(call('get', lease.keys[i]))
    lease.tokens[i] = other and other.token or ''
  end
  return lease
end

-- The lease, which counts as that of a spent token if its kind is none: any client of Redis may
-- write a record. Nil: there is no record.
local function known(lease)
  if lease and lease.state ~= 'ended' and not KINDS[lease.kind] then
    lease.state, lease.detail = 'ended', 'unknown'
  end
  return lease
end

-- The same as stored(), for scripts that go by the kind of the lease.
local function load(id) return known(stored(id)) end

-- A lease without a record: of a plain lock, with a token that the server made.
local function plain(id, lock, key)
  return with_key(parse('held\n\n\n\n\n\n\n\n\n\nlock\n'), id, lock, key)
end

-- The lease of `lock` with this ref, which is not the caller's own, and the text of its record.
-- Nil: there is no record, or another type of key in its place.
local function find(lock, ref)
  local key = lib.keys.sibling(lock, 'lease', ref)
  local text = try('get', key)
  if type(text) ~= 'string' then return nil end
  return with_key(parse(text), string.gsub(ref, ':m$', ''), lock, key), text
end

-- Whether a request differs in kind, owner or session from the lease with its token. A request
-- without a session fits a lease that holds: the lease's record has its session.
local function is_other(lease, request)
  if lease.kind ~= request.kind then return true end
  if lease.state == 'held' and request.session == '' then return false end
  return lease.owner ~= request.owner or lease.session ~= request.session
end

-- Whether a lease that has not ended is of another session than this one, or of none. `session`
-- empty or nil: any session will do.
local function is_of_other(lease, session)
  return session and session ~= '' and lease.session ~= session
end

-- The reply if a token that is used for a lock is that of a permit, or the other way round
-- (`is_permit`); or nil.
local function mismatch(lease, is_permit)
  if lease.state ~= 'ended' and (lease.kind == 'permit') ~= is_permit then return {'reused'} end
  return nil
end

-- The holder field of the lease. That of a set differs from that of a lease of one lock with
-- the same id.
local function holder_of(lease)
  if lease.owner ~= '' then
    return lease.session .. ':' .. lease.owner .. lib[lease.kind].field_end
  end
  return lease.id .. (lease.is_set and ':m' or ':0') .. lib[lease.kind].field_end
end

return {
  parse = parse, ended = ended, format = format, with_key = with_key, with_keys = with_keys,
  stored = stored, load = load, plain = plain, find = find, is_other = is_other,
  is_of_other = is_of_other,
  known = known, mismatch = mismatch, holder_of = holder_of, caller_of = caller_of,
  waits = waits, others_of = others_of
}
