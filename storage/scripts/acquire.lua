-- Acquires a plain lock for one lease, or confirms that this very lease holds it, or registers
-- the lease as a waiter.
--
-- KEYS lock counter queue record
-- ARGV lease_id ttl_ms record_text keep_ms fencing_ttl_ms [wait_ms] [mode] [registered]
-- REPLY granted|held token remaining_ms record holds
-- REPLY busy remaining_ms field holds text token
-- REPLY ended reason session_id kind forced_by
-- sync yes
-- grants yes
--
--   lock     hash of holder field -> holds; its TTL is that of the lease
--   counter  the last fencing token      queue  of a fair lock of that name
--   record   of the lease                ARGV   see lib/request.lua
--
-- Replies  token: granted as asked for, with one hold; the common case
--          granted: record may be ""
--          held: an earlier request got it; record may be ""
--          busy: field, text and token of the holder, see lib/holder.lua
--          ended: session id and kind where this call found a loss; of a lease that was forced
--            out the caller and the reason, a newline between, where they are known
--          recorded: the lease's record says that it holds: ask lease_confirm.lua
--          reused | wrong-kind | too-many: more waiters than may be
--
-- Uncontended and without an owner: 6 commands, 5 in mode "fresh". The first write is one that
-- fails when memory is short, so a grant is never half made.

-- The common cases first. Their replies and commands are made of text that is there already: a
-- table costs Redis as much as two commands, and each argument a third of one. A record without
-- an owner ends in a newline. This grant is the one of lib/request.lua written again, and its
-- token that of lib/token.lua, because modules cost Redis a tenth of a request.
local is_usual = registered ~= '1' and mode ~= 'returned' and string.byte(record_text, -1) == 10
local is_free = is_usual and call('exists', lock, queue) == 0
local token, last
if is_free and
  (mode == 'fresh' or call('set', record, record_text, 'nx', 'px', keep_ms)) then
  local time = call('time')
  local us = time[2]
  if #us < 6 then us = string.sub('00000' .. us, -6) end
  token = time[1] .. us
  if fencing_ttl_ms == '0' then
    last = try('set', counter, token, 'get')
  else
    last = try('set', counter, token, 'px', fencing_ttl_ms, 'get')
  end
  if not last or (type(last) == 'string' and #last == #token and last < token) then
    call('hset', lock, lease_id .. ':0', '1')
    call('pexpire', lock, ttl_ms)
    return token
  end
end

-- modules lock
if last then -- a later token, which is the last one again, or another type of key
  if type(last) == 'string' then lib.token.put(counter, last, fencing_ttl_ms) end
  local err
  token, err = lib.token.make(counter, fencing_ttl_ms)
  if not token then -- nothing is granted
    call('del', record)
    return err
  end
  call('hset', lock, lease_id .. ':0', '1')
  call('pexpire', lock, ttl_ms)
  return token
elseif is_usual and not is_free then
  local wait = tonumber(wait_ms) or 0
  local old = wait <= 0 and mode ~= 'fresh' and call('get', record)
  if old then -- repeated: the answer of lease_confirm.lua, where the lease holds
    local attempt, rest, session = string.match(old,
      '^held\n\n([^\n]*)(\n\n[^\n]*\n[^\n]*\n([^\n]*)\n[^\n]*\n\n1?\nlock\n)$')
    local own, own_session = string.match(record_text,
      '^held\n\n([^\n]*)\n\n[^\n]*\n[^\n]*\n([^\n]*)')
    local holds = attempt and (own_session == session or own_session == '') and
      try('hget', lock, lease_id .. ':0')
    if type(holds) == 'string' then
      if attempt ~= own and attempt ~= '' then
        call('hdel', lock, '') -- removes nothing; SET may be refused when memory is short
        attempt, old = '', 'held\n\n' .. rest
        call('set', record, old, 'xx', 'keepttl')
      end
      local last = try('get', counter)
      return {attempt == own and 'granted' or 'held', type(last) == 'string' and last or '0',
        math.max(call('pttl', lock), -1), old, holds}
    end
  end
  local fields = not old and try('hrandfield', lock, 2, 'withvalues') or {}
  local text = #fields == 2 and
    lib.brief.record_of_holder(fields[1], record, lease_id, '\nlock\n')
  if text and (wait <= 0 or lib.first.register(record, record_text, wait + keep_ms - ttl_ms,
    lib.keys.sibling(lock, 'waiters'), lease_id, lib.number.epoch_ms(), wait,
    keep_ms - ttl_ms)) then
    local token = try('get', counter)
    return {'busy', call('pttl', lock), fields[1], tonumber(fields[2]), text,
      type(token) == 'string' and token or ''}
  end
end

local requests = lib.request
local request = requests.read(lease_id, ttl_ms, record_text, keep_ms, wait_ms, mode,
  registered)

local function grant()
  local token, err = lib.token.make(counter, fencing_ttl_ms)
  if not token then return requests.refuse(request, err) end
  local reply = requests.take(request, lock, request.owner ~= '' and token or '', -2)
  reply[2] = token
  return reply
end

local reply = requests.answer(request)
if reply then return reply end

local remaining = call('pttl', lock)
if remaining == -2 then
  reply = requests.refusal(request)
  if not reply and not lib.fair_empty.is_empty(lock) then reply = {'wrong-kind'} end
  return reply and requests.refuse(request, reply) or grant()
end

local field, holds, kind, text = lib.holder.only(lock)
if not field then return requests.refuse(request, holds) end
if kind == 'fair' then return requests.refuse(request, {'wrong-kind'}) end
local is_own = field == lib.record.holder_of(request)
if is_own and not request.old and request.owner == '' then -- the server made the token
  if request.session ~= '' then return requests.refuse(request, {'reused'}) end
  local word = request.mode == 'fresh' and 'granted' or 'held'
  local token = call('get', counter) or '0'
  return requests.refuse(request, {word, token, remaining, '', holds})
end
reply = requests.refusal(request)
if reply then return requests.refuse(request, reply) end
if is_own then return requests.reenter(request, lock, counter, remaining) end
return requests.register_waiter(request) or
  lib.holder.busy(remaining, lock, field, holds, text)
