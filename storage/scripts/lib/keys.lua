-- Names of keys and channels that are derived from the name of a lock, by Redisson's rules. All
-- of a lock's keys are in its slot.

local function companion(prefix, lock)
  if string.find(lock, '{', 1, true) then return prefix .. ':' .. lock end
  return prefix .. ':{' .. lock .. '}'
end

local function suffixed(lock, suffix)
  if string.find(lock, '{', 1, true) then return lock .. ':' .. suffix end
  return '{' .. lock .. '}:' .. suffix
end

local function counter_of(lock) return companion('redisson_lock_token', lock) end

local function queue_of(lock) return companion('redisson_lock_queue', lock) end

-- The key of a lock that C gave to the script, of the groups in KEYS the one with this number:
-- KEY_COUNTER for its counter.
local function given(number, position) return KEYS[KEY_COUNT * (number - 1) + position] end

-- A key of rlockd's beside a lock: `waiters`, `places`, `forced`, `owner`, and with the ref of
-- a lease (lib/record.lua) `lease`, `forced-by`, `barred`.
local function sibling(lock, what, ref)
  local key = companion('rlockd:' .. what, lock)
  return ref and key .. ':' .. ref or key
end

-- Whether requests wait for the lock. Another type of key in place of the waiters counts as
-- none: a script that has released or granted already must not fail.
local function has_waiters(lock)
  local count = try('zcard', sibling(lock, 'waiters'))
  return type(count) == 'number' and count > 0
end

return {
  companion = companion, suffixed = suffixed, counter_of = counter_of, queue_of = queue_of,
  given = given, sibling = sibling,
  has_waiters = has_waiters
}
