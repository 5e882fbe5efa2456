-- A node's vote for a lease with a fencing token: acquires one or several locks of kind lock,
-- read or write for the lease at this node, all of them or none, or moves the vote of the same
-- attempt to another token, or registers the lease as a waiter for each lock.
--
-- KEYS as ../acquire.lua ...
-- ARGV as ../set_acquire.lua token round quarantine_ms
-- REPLY held token
-- REPLY busy remaining_ms field holds text token number counter
-- REPLY low|clock number
-- REPLY spent reason forced_by
-- REPLY unbound reason
-- REPLY quarantine remaining_ms
-- REPLY wrong-kind|too-many number
-- sync yes
--
--   KEYS, ARGV     those of set_acquire.lua; for one lock its record is that of a lease of one
--                  lock. record_text: with the attempt `<worker>.<number>`; the name of its
--                  session is put in here. fencing_ttl_ms: at least 60,000, or 0
--   token          that is proposed, for each of the locks; above 0
--   round          of the votes of this attempt, from 1
--   quarantine_ms  a node whose process is not known for so long gives no votes
--
-- Replies, the first one that fits:
--          quarantine: ms that are left of it
--          unbound: the lease is of a session which is not open here (reason), or has no note
--            of the lease (reason: full): session_bind.lua runs before this script
--          spent: the lease is; forced_by as in acquire.lua
--          reused: the token is that of a lease of another kind, owner or session
--          accepted: a number, the token of this vote or of the same one before
--          held: the lease holds here by another attempt or a later round, or is claimed; token
--          lapsed: its hold has ended here
--          busy: as in acquire.lua, number of the lock that blocks; counter: the highest
--            fencing token of the lease's locks, 0: none. The lease is registered as a waiter
--            if wait_ms is above 0
--          wrong-kind, too-many: number of the lock
--          low: the highest fencing counter of the locks, which `token` is not above
--          clock: `token` is more than 5 s off the node's clock: a number just below what the
--            clock says
--
-- Every front end runs marker.lua at each connection to a node before this script: the marker
-- tells since when the node's process has these data.
-- The common cases first: a new lease of kind lock that finds the lock free or held by another
-- such lease. A lease of a session needs an open session and its note. A record ends in an
-- empty owner.
local attempt, head, session, name, watchdog, us
if #KEYS == KEY_COUNT and registered ~= '1' and mode ~= 'returned' then
  attempt, head, session, name, watchdog = string.match(record_text,
    '^held\n\n([^\n]*)\n\n([^\n]*\n[^\n]*\n)([^\n]*)\n([^\n]*\n)\n(1?)\nlock\n$')
end
local since, record = attempt and call('hget', 'rlockd:marker', 'since'), KEYS[KEY_RECORD]
local is_usual = false
if since then
  local time = call('time')
  us = time[1] * 1000000 + time[2]
  is_usual = us / 1000 >= since + quarantine_ms
  if is_usual and session ~= '' then
    local home = call('hmget', 'rlockd:session:{' .. session .. '}', 'state', 'deadline',
      'name')
    local notes = 'rlockd:session-leases:{' .. session .. '}'
    name = (home[3] or '') .. '\n'
    is_usual = home[1] == 'open' and tonumber(home[2]) * 1000 > us and
      call('hexists', notes, lease_id .. ' ' .. lock) == 1
  end
end
local is_free = is_usual and call('exists', lock, queue) == 0
if is_free then
  local last, number = try('get', counter) or '0', tonumber(token)
  if type(last) == 'string' and number > (tonumber(last) or 0) and number > us - 5000000 and
    number < us + 5000000 and call('set', record, 'held\nwas ' .. last .. '\n' .. attempt ..
      '.' .. round .. '\n' .. since .. '\n' .. head .. session .. '\n' .. name .. token ..
      '\n' .. watchdog .. '\nlock\n', 'nx', 'px', keep_ms) then
    if fencing_ttl_ms == '0' then
      call('set', counter, token)
    else
      call('set', counter, token, 'px', fencing_ttl_ms)
    end
    call('hset', lock, lease_id .. ':0', '1')
    call('pexpire', lock, ttl_ms)
    return number
  end
end

-- modules lock read write
if is_usual and not is_free then
  local wait, window = tonumber(wait_ms) or 0, keep_ms - ttl_ms
  local is_new = wait > 0 or call('exists', record) == 0
  local fields = is_new and try('hrandfield', lock, 2, 'withvalues') or {}
  local text = #fields == 2 and
    lib.brief.record_of_holder(fields[1], record, lease_id, '\nlock\n')
  if text and (wait <= 0 or lib.first.register(record, record_text, wait + window,
    lib.keys.sibling(lock, 'waiters'), lease_id, math.floor(us / 1000), wait, window)) then
    local last = try('get', counter)
    last = type(last) == 'string' and last
    return {'busy', call('pttl', lock), fields[1], tonumber(fields[2]), text, last or '', 1,
      last or '0'}
  end
end

local requests, leases, votes = lib.request, lib.lease, lib.vote

-- How far a token may be off the node's clock; ahead of it only if it is further ahead of the
-- counter than this.
local CLOCK_US, AHEAD_US = 5000000, 1000000

local left = votes.quarantine_left(quarantine_ms)
if left then return {'quarantine', left} end
local request = requests.read(lease_id, ttl_ms, record_text, keep_ms, wait_ms, mode,
  registered)
local old, proposed = request.old, tonumber(token)

local reason, session_name = votes.unbound(request)
if reason then return requests.refuse(request, {'unbound', reason}) end
request.session_name = session_name or request.session_name
if old and old.state == 'ended' then
  return requests.refuse(request, {'spent', old.detail, leases.forced_by(old)})
end
if old and lib.record.is_other(old, request) then
  return requests.refuse(request, {'reused'})
end

-- The highest number of the locks, and each of them; nil and a reply: another type of key.
local function highest(number_of)
  local most, numbers = 0, {}
  for i = 1, #request.locks do
    numbers[i] = number_of(i)
    if not numbers[i] then return nil, {'wrong-kind', i} end
    most = math.max(most, numbers[i])
  end
  return most, numbers
end

-- The reply that the token is ahead of the node's clock; nil: it is not. A moved vote, too,
-- must not take the counter to the clock of a node that is far ahead.
local function ahead_of_clock(us, most)
  if proposed <= us + CLOCK_US or proposed <= most + AHEAD_US then return nil end
  return {'clock', votes.token_text(us - 1)}
end

local function clock_us()
  local time = call('time')
  return time[1] * 1000000 + time[2]
end

-- Writes the vote of this round. `numbers`: what the counters were before.
local function write(numbers)
  local details, attempt = {}, request.attempt
  for i, number in ipairs(numbers) do details[i] = 'was ' .. votes.token_text(number) end
  request.attempt = attempt .. '.' .. round
  votes.write(request, proposed, details, fencing_ttl_ms)
  request.attempt = attempt
  return proposed
end

-- Moves the attempt's own vote: above the counter before the vote or, where another lease has
-- raised the counter since, above the counter as it is now. In that case a withdrawal leaves
-- the counter at the token of that lease.
local function move()
  local own = tonumber(old.tokens[1])
  local most, numbers = highest(function(i)
    local counter = votes.counter_of(old, i)
    return counter == own and votes.was_of(old, i) or counter
  end)
  if not most then return numbers end
  if proposed <= most then return {'low', votes.token_text(most)} end
  local ahead = ahead_of_clock(clock_us(), most)
  if ahead then return ahead end
  local reply = write(numbers)
  votes.extend(request)
  return reply
end

local function own_vote()
  local reason = votes.spent_of(old)
  if reason then return {'spent', reason} end
  if not leases.holds_of(old) then
    return leases.loss_reason(old) == 'forced' and {'spent', 'forced'} or {'lapsed'}
  end
  local attempt, last = votes.attempt_of(old)
  if attempt ~= request.attempt or tonumber(round) < last then
    return {'held', old.tokens[1]}
  end
  if tonumber(round) == last then return tonumber(old.tokens[1]) end
  return move()
end

if old and old.state == 'held' then return requests.refuse(request, own_vote()) end
if not old and request.mode == 'returned' then return {'lapsed'} end

local most, numbers = highest(function(i) return votes.counter_of(request, i) end)
if not most then return requests.refuse(request, numbers) end
local busy, found = votes.refusal(request, tonumber(blocking))
if busy and busy[1] ~= 'busy' then return requests.refuse(request, busy) end
if busy then
  busy[8] = votes.token_text(most)
  return requests.register_waiter(request) or busy
end

if proposed <= most then return {'low', votes.token_text(most)} end
local us = clock_us()
if proposed < us - CLOCK_US then return {'clock', votes.token_text(us - 1)} end
local ahead = ahead_of_clock(us, most)
if ahead then return ahead end
local reply = write(numbers)
votes.take(request, found)
return reply
