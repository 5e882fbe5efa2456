-- What the scripts share that are given the token of a lease of several locks and not their
-- names: its record has them. Needs lease.lua and session.lua before it.

-- The first of its locks that somebody holds, for one that waits.
local function waits_for(record)
  for i, lock in ipairs(record.locks) do
    local field = find_holder(lock)
    if field then return {'busy', redis.call('pttl', lock), field, i, names_of(record)} end
  end
  return {'busy', -1, '', 0, names_of(record)}
end

-- What there is to be said of a lease that does not hold: a reply, or nothing.
local function told_of_several(record, lease_id, window)
  if not record then return {'ended', 'unknown', ''} end
  if record.lock ~= '' then return {'reused'} end
  if record.state == 'ended' then return {'ended', record.detail, names_of(record)} end
  if record.state == 'waiting' then return waits_for(record) end
  if not holds(record, lease_id) then
    redis.call('pexpire', record_key(lease_id), window) -- a write that is always allowed
    return {'ended', lose(record, lease_id, window), names_of(record)}
  end
  if record.session == '' then return nil end
  local state, reason = session_state(record.session, epoch_ms())
  if not state then return {'session-ended', reason} end
  return nil
end

local function held_several(record, lease_id, left)
  local counts = {}
  for i, lock in ipairs(record.locks) do
    counts[i] = redis.call('hget', lock, holder_of(record, lease_id)) or '0'
  end
  return {'held', record.token, left, format(record), table.concat(counts, ' '),
    names_of(record)}
end
