-- Acquires a fair lock for one lease, or confirms that this very lease holds it, or puts the
-- lease in the queue. First come, first served; a place in the queue outlives its request by
-- PLACE_MS.
--
-- KEYS  1 lock: hash of holder -> holds   2 fencing counter   3 queue: see lib/fair.lua
-- ARGV  those of lib/request.lua
--
-- Replies  those of acquire.lua; busy tells of a lock that is free for somebody else, too
-- include token
local lock, counter = KEYS[1], KEYS[2]
local wanted = {lock = lock}
-- include request

local place = place_of(lease_id)
local now = epoch_ms()

-- `is_head`: it has a place, also where nothing else is left of its requests.
local function grant(is_head)
  local token, err = next_token(counter)
  if not token then return refuse(err) end
  if is_head or old or registered then
    leave_queue(lock, place)
    redis.call('zrem', 'rlockd:due', lease_id)
  end
  bind(token)
  redis.call('hset', lock, holder, '1')
  redis.call('pexpire', lock, ttl)
  stop_waiting()
  return {'granted', token, ttl, '', 1}
end

-- Another lease of the same owner does not queue for what its owner has.
local function reenter(remaining)
  local token = redis.call('get', counter) or '0'
  bind(token)
  local count = redis.call('hincrby', lock, holder, 1)
  if tonumber(ttl) > remaining then redis.call('pexpire', lock, ttl) end
  if old or registered then leave_queue(lock, place) end
  stop_waiting()
  return {'granted', token, ttl, '', count}
end

local function hold_place(remaining)
  join_queue(lock, place, now, remaining)
  redis.call('zadd', 'rlockd:due', now + PLACE_MS, lease_id)
end

-- The request ends, and its place stays for the next one with this token.
local function leave_place(remaining)
  if registered then stop_waiting_with(old, lease_id, mark, window) end
  redis.call('pexpire', lease,
    integer(math.max(PLACE_MS + window, redis.call('pttl', lease))))
  hold_place(remaining)
end

-- `ms`: when to try again.
local function busy(ms, whom, remaining)
  -- Whoever has a place keeps it also when memory is short.
  if old then begin_writing(lock) end
  if tonumber(wait) > 0 then
    stand_in_line()
    hold_place(remaining)
  elseif old and wait ~= '-1' then
    leave_place(remaining)
  end
  return {'busy', ms, whom}
end

local said = settled()
if said then return said end
local no = objection()
if no then return refuse(no) end
if not is_queue_sound(lock) then return refuse({'wrong-kind'}) end

local remaining = redis.call('pttl', lock)
if remaining == -2 then
  local head, is_new = head_of(lock, now)
  if not head or head == place then return grant(head == place) end
  -- The head has been called, or is dead: nobody else gets in before its time is over.
  if is_new then call_waiter(lock, head) end
  return busy(math.max(place_left(lock, head, now), FAIR_PACE_MS), head, 0)
end

local holders = redis.pcall('hrandfield', lock, 2, 'withvalues')
if holders.err then return refuse(holders) end
local found = #holders == 2 and is_holder(holders[1])
if not found or (kind_of_holder(lock, holders[1]) or kind) ~= kind then
  return refuse({'wrong-kind'})
end
if holders[1] == holder then return reenter(remaining) end
head_of(lock, now)
return busy(remaining, holders[1], remaining)
