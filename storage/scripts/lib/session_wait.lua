-- The notes of the long waits of a session: the hash rlockd:session-waits:{<session id>}, wait
-- id -> six lines:
--
--   ends_at   epoch ms: the note counts until then, and is made again before
--   since     epoch ms when the lease began to wait
--   answered  the last questions whether it still waits that were answered, with blanks
--   owner     of the lease; empty: none
--   note      of the lease
--   ref       of the lease, as in lib/session_home.lua; with a newline before each lock's name
--             if the lease has several
local PATTERN = '^(%d+)\n(%-?%d+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$'

-- The questions that a note keeps. More come only if many front ends ask at once, and these ask
-- again.
local ANSWERED_BYTES = 200

local function parse(text)
  if not text then return nil end
  local ends_at, since, answered, owner, note, ref = string.match(text, PATTERN)
  if not ends_at then return nil end
  return {
    ends_at = tonumber(ends_at), since = since, answered = answered, owner = owner,
    note = note, ref = ref
  }
end

local function format(wait)
  return wait.ends_at .. '\n' .. wait.since .. '\n' .. wait.answered .. '\n' .. wait.owner ..
    '\n' .. wait.note .. '\n' .. wait.ref
end

-- Of at most `limit` notes those that have not ended, each as six values: wait id, since,
-- owner, answered, note, ref. `owner`: of the leases of this owner only, and with "" of the
-- leases without an owner; nil: of all leases.
local function list(waits, limit, now, owner)
  local found, values = call('hrandfield', waits, limit, 'withvalues'), {}
  for i = 1, #found, 2 do
    local wait = parse(found[i + 1])
    if wait and wait.ends_at > now and (not owner or wait.owner == owner) then
      for _, value in ipairs({
        found[i], wait.since, wait.owner, wait.answered, wait.note, wait.ref
      }) do
        values[#values + 1] = value
      end
    end
  end
  return values
end

local function with_answer(answered, question)
  return string.sub(question .. ' ' .. answered, 1, ANSWERED_BYTES)
end

return {parse = parse, format = format, list = list, with_answer = with_answer}
