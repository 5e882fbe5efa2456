-- Frees a lock whichever client holds it, all readers of it at once, or only one grant of it.
--
-- KEYS lock counter forced
-- ARGV window_ms asked_token [by] [asked_holder] [up_to]
-- sync yes
--
--   forced        holder and token of the last force-unlock; `*`: all holders
--   window_ms     for which that is noted
--   asked_token   of the only grant to free, which is rlockd's; "*": any grant; "": any grant,
--                 or no grant
--   by            who frees the lock and why: caller, newline and reason; empty: not known
--   asked_holder  the holder field of that grant, of a read: grant_find.lua finds it; empty:
--                 not known
--   up_to         at a node of a quorum, unless only one grant is to be freed: the lock is left
--                 alone if a lease with a fencing token above this holds it
--
-- Replies  unlocked, holder, token: of the only grant that was freed
--          and at a node of a quorum, of a read/write lock that was freed as a whole, the list
--            of its holder fields, with the last token: their leases are then to be spent
--          free | stale: another grant, or none | wrong-kind
--          search: readers hold the lock, and asked_holder is missing
--          low, holder, token, holders: the newest fencing token, which is above up_to, and the
--            list of the holder fields | clock, holder, number, holders: up_to is more than 5 s
--            ahead of the node's clock, number just below what the clock says
--
-- A script that reaches a node late must not end a lease that was granted after the answer: the
-- counters of a majority are at up_to by then, so the token of such a lease is above it.
-- modules lock fair read write
local readers, field_of = lib.readers, lib.field
local is_for_one = asked_token ~= '' and asked_token ~= '*'

local mode = try('hget', lock, 'mode')
if type(mode) == 'table' then return mode end

-- The lease of the holder field that holds; nil: it has no record, or is an owner's.
local leases = {} -- by field
local function lease_of(field)
  if leases[field] == nil then
    local ref = field_of.is_ours(field) and field_of.ref_of(field)
    leases[field] = ref and lib.record.find(lock, ref) or false
  end
  return leases[field] or nil
end

-- The fencing token of a writer or of the only holder: the lock's last one. At a node of a
-- quorum a repair passes a counter that may be higher.
local function token_of(field)
  --quorum: local lease = lease_of(field)
  --quorum: if lease then return lease.tokens[1] end
  return call('get', counter) or ''
end

-- Publishes to the session of the holder at once: the session of its lease, or of its owner.
local function notify_session(field, lease)
  local session = lease and lease.session or field_of.owner_of(field)
  if session ~= '' then call('publish', 'rlockd:sessions', session) end
end

-- `forced` has a form that front ends of earlier versions read, so `by` has a key of its own.
local function note_forced(holder, token)
  local head = holder .. ' ' .. token
  call('set', forced, head, 'px', window_ms)
  if by and by ~= '' then
    call('set', lib.keys.sibling(lock, 'forced-by'), head .. '\n' .. by, 'px', window_ms)
  end
end

-- The record of the lease gets the reason, because the next force-unlock overwrites `forced`.
local function mark_forced(lease)
  lease.detail = 'forced'
  lib.lease.rewrite(lease)
  if by and by ~= '' then lib.lease.note_forced_by(lease, by, window_ms) end
end

--quorum: -- The reply that one of these fields, each with its value, is that of a newer lease,
--quorum: -- or that up_to is no token for this node; or nil, and the counter is at up_to.
--quorum: -- `is_all`: the lock has no other fields; among those a lease may be as new as the
--quorum: -- counter.
--quorum: local function refuse(fields, is_all)
--quorum:   if not up_to then return nil end
--quorum:   local text, limit = try('get', counter), tonumber(up_to)
--quorum:   local last = type(text) == 'string' and tonumber(text) or 0
--quorum:   local newest, holders = is_all and 0 or last, {}
--quorum:   for i = 1, #fields, 2 do
--quorum:     local lease = fields[i] ~= 'mode' and lease_of(fields[i])
--quorum:     newest = math.max(newest, lease and tonumber(lease.tokens[1]) or 0)
--quorum:     if fields[i] ~= 'mode' then holders[#holders + 1] = fields[i] end
--quorum:   end
--quorum:   local function refused(word, number)
--quorum:     return {word, holders[1] or '', string.format('%.0f', number), holders}
--quorum:   end
--quorum:   if newest > limit then return refused('low', newest) end
--quorum:   local us = 1000 * lib.number.epoch_ms()
--quorum:   if limit - us > 5000000 and limit - last > 1000000 then
--quorum:     return refused('clock', us - 1)
--quorum:   end
--quorum:   if last >= limit or type(text) == 'table' then return nil end
--quorum:   local left = text and call('pttl', counter) or 0
--quorum:   call('pexpire', forced, window_ms) -- a write that is always allowed
--quorum:   lib.token.put(counter, up_to, left < 0 and '0' or math.max(left, window_ms, 60000))
--quorum: end

local function free_lock()
  local holders = call('hrandfield', lock, 2)
  if #holders == 0 then
    --quorum: local no = refuse({}, true)
    --quorum: if no then return no end
    return {asked_token == '' and 'free' or 'stale'}
  end
  if #holders ~= 1 or not field_of.is_holder(holders[1]) then return {'wrong-kind'} end
  local token = token_of(holders[1])
  -- A Java client's grant has no token: the counter may have that of a grant before.
  local is_asked = field_of.is_ours(holders[1]) and token == asked_token
  if is_for_one and not is_asked then return {'stale'} end
  --quorum: local no = refuse({holders[1], ''}, true)
  --quorum: if no then return no end
  -- DEL first: it is allowed when memory is short.
  call('del', lock, lib.keys.sibling(lock, 'owner'))
  lib.lock.wake(lock)
  lib.fair.wake(lock) -- where it is a fair lock
  note_forced(holders[1], token)
  local lease = lease_of(holders[1])
  local is_marked = lease and lease.state == 'held'
  --quorum: is_marked = false -- the servers agree on it in other ways
  if is_marked then mark_forced(lease) end
  notify_session(holders[1], lease)
  return {'unlocked', holders[1], token}
end

-- Ends the reads of one grant; the reads of one owner share its token.
local function free_reads()
  if not asked_holder or asked_holder == '' then return {'search'} end
  local reads, holder = lib.grant.reads_of(lock, asked_token, asked_holder), asked_holder
  if #reads == 0 then return {'stale'} end
  call('pexpire', forced, window_ms) -- a write that is always allowed
  note_forced(holder, asked_token)
  for _, read in ipairs(reads) do
    local lease = read[2]
    lib.lease.release(lease)
    mark_forced(lease)
    notify_session(read[1], lease)
  end
  return {'unlocked', holder, asked_token}
end

-- Whether a writer of rlockd holds with this token; writers of Java clients have no token.
local function is_current_writer(some)
  for _, one in ipairs(some) do
    if readers.is_writer(one[1]) then
      return field_of.is_ours(one[1]) and token_of(one[1]) == asked_token
    end
  end
  return false
end

-- The largest number of keys of reads that one call deletes; further keys expire.
local READS_MAX = 1000

-- Deletes the keys of a reader's reads, at most `most`. Returns how many.
local function delete_reads(holder, count, most)
  count = math.min(tonumber(count) or 0, most)
  for number = 1, count do call('del', readers.key_of(lock, holder, number)) end
  return count
end

-- With very many readers only some sessions are notified at once.
local function free_readers_and_writer()
  local some = readers.some_holders(lock, mode)
  if not some then return {'wrong-kind'} end
  local token = call('get', counter) or ''
  if is_for_one then
    if mode == 'read' then return free_reads() end
    if not is_current_writer(some) then return {'stale'} end
  end
  local fields, is_all = readers.fields_of(lock)
  --quorum: local no = refuse(fields, is_all)
  --quorum: if no then return no end
  -- Of very many readers DEL takes milliseconds. UNLINK is allowed when memory is short, too.
  call('unlink', lock, lib.keys.sibling(lock, 'owner'))
  readers.publish_free(lock, '1')
  local up_to_token = token
  --quorum: if up_to and (tonumber(token) or 0) > tonumber(up_to) then up_to_token = up_to end
  note_forced('*', up_to_token)
  local holder, left = '', READS_MAX
  --quorum: local all = {}
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      holder = fields[i]
      left = left - delete_reads(holder, fields[i + 1], left)
      notify_session(holder, lease_of(holder))
      --quorum: all[#all + 1] = holder
    end
  end
  --quorum: if all[1] then return {'unlocked', holder, token, all} end
  return {'unlocked', holder, mode == 'write' and #fields == 4 and token or nil}
end

if not mode then return free_lock() end
return free_readers_and_writer()
