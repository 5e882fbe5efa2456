-- What the scripts share about names and about the records of leases. embed.sh puts a lib's
-- text where a script says `-- include NAME`, once. Keys that only the data names are made
-- here; they are on the same server as everything else.
--
-- A lease's record, `rlockd:lease:<lease id>`, is a string of these lines:
local LINES = {
  'state',    -- waiting, held or ended
  'detail',   -- why it ended; "shared": two requests wait with the token; the mark of one that
              -- left the other waiting; "place": a place in a fair lock's queue, and no request
  'mark',     -- the request that was granted; empty once another was told that it holds
  'since',    -- epoch ms when it began to wait, or was granted for a session
  'ttl',      -- ms that the lease was acquired or renewed for
  'note',
  'session',  -- session id; empty: none
  'token',    -- fencing token of a lease with a session or of a kind other than "lock", a blank
              -- between those of several locks; of a released one the holds left
  'watchdog', -- "1": renewed while its session lives
  'kind', 'owner',
  'lock'      -- the name of the lock's hash; empty for several locks, one a line after it
}

local function parse(text)
  if not text then return nil end
  local record, line = {}, 0
  for value in string.gmatch(text .. '\n', '([^\n]*)\n') do
    line = line + 1
    if line > #LINES then
      record.locks = record.locks or {}
      table.insert(record.locks, value)
    else
      record[LINES[line]] = value
    end
  end
  return record
end

local function format(record)
  local values = {}
  for line, name in ipairs(LINES) do values[line] = record[name] or '' end
  for _, lock in ipairs(record.locks or {}) do table.insert(values, lock) end
  return table.concat(values, '\n')
end

-- What a lease is of, as one text: a name, or of several locks each name after a newline.
-- Empty: a token for several that was spent before anybody had asked with it.
local function names_of(record)
  if not record.locks then return record.lock end
  return '\n' .. table.concat(record.locks, '\n')
end

-- The fencing tokens of a lease, in the order of its locks.
local function tokens_of(record)
  local tokens = {}
  for token in string.gmatch(record.token or '', '%d+') do table.insert(tokens, token) end
  return tokens
end

-- That of one of its locks, or "".
local function token_for(record, lock)
  if not record.locks then return record.token end
  for i, name in ipairs(record.locks) do
    if name == lock then return tokens_of(record)[i] or '' end
  end
  return ''
end

local function record_key(lease_id) return 'rlockd:lease:' .. lease_id end

-- The record of a lease that is not the caller's own. Nil: it has none, or somebody put
-- something else in its place, which is nobody else's trouble.
local function find_record(lease_id)
  local text = redis.pcall('get', record_key(lease_id))
  return type(text) == 'string' and parse(text) or nil
end

-- Redisson's rules for the names of a lock's companions.
local function companion(prefix, lock)
  if string.find(lock, '{', 1, true) then return prefix .. ':' .. lock end
  return prefix .. ':{' .. lock .. '}'
end

local function suffixed(lock, suffix)
  if string.find(lock, '{', 1, true) then return lock .. ':' .. suffix end
  return '{' .. lock .. '}:' .. suffix
end

local function counter_of(lock) return companion('redisson_lock_token', lock) end

local function integer(number) return string.format('%.0f', number) end

local function epoch_ms()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The field of the hash that stands for the lease. That of several locks differs, so that it is
-- never taken for one's own.
local function holder_of(record, lease_id)
  local holder = lease_id .. (record.locks and ':m' or ':0')
  if record.owner ~= '' then holder = record.session .. ':' .. record.owner end
  return record.kind == 'write' and holder .. ':write' or holder
end

-- A write that changes nothing and that Redis allows when memory is short: it then allows those
-- that follow it in the script, too.
local function begin_writing(lock) redis.call('hdel', lock, '') end

-- Whether a field of a hash is one of a lock: Redisson's <uuid>:<thread>, and whatever follows.
local function is_holder(field)
  return string.find(field, '^%x+%-%x+%-%x+%-%x+%-%x+:') ~= nil
end

-- Ids that we make are UUIDs of version 5, those of Java clients of version 4.
local function is_ours(field) return string.find(field, '^%x+%-%x+%-5') ~= nil end

-- The lease, or the session of an owner, that a field `<id>:0` or `<id>:m` stands for; nil: it
-- is somebody else's.
local function lease_of_holder(field)
  return is_ours(field) and string.match(field, '^([^:]*):[0m]$') or nil
end
