-- Looks for the reader that has a fencing token, among some of the lock's readers; the next
-- call goes on with further readers. Changes no key. A reader that holds from the first call to
-- the last is found.
--
-- KEYS lock
-- ARGV asked_token state
-- REPLY [] holder state
-- sync no
--
--   state  "" at first, later the state of the reply before: a cursor, and readers that have
--          more reads than that call could look at, each with the number of its next read
--
-- Reply  the holder field, "": not found; the state is "" after the last of the readers
-- modules read
local readers, field_of = lib.readers, lib.field

-- The largest numbers of readers of a page, and of reads that one call looks at: the call takes
-- about half a millisecond.
local READERS_MAX, READS_MAX = 50, 100

local cursor, rest = string.match(state, '^(%d*)(.*)$')
local mode = try('hget', lock, 'mode')
if mode ~= 'read' then return {'', ''} end

local todo = {} -- reader, number of its first read to look at
for holder, first in string.gmatch(rest, '\n(%S+) (%d+)') do
  todo[#todo + 1] = {holder, tonumber(first)}
end
if #todo == 0 then
  local page = call('hscan', lock, cursor ~= '' and cursor or '0', 'count', READERS_MAX)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    local field = page[2][i]
    if field_of.is_ours(field) and not readers.is_writer(field) then
      todo[#todo + 1] = {field, 1}
    end
  end
end

local holders, read_keys, left = {}, {}, ''
for _, one in ipairs(todo) do
  local holder, first = one[1], one[2]
  -- The count of a reader that is left for the next call is asked for by that call.
  local is_full = #holders == READS_MAX
  local count = is_full and first or tonumber(call('hget', lock, holder)) or 0
  local last = math.min(count, first + READS_MAX - #holders - 1)
  for number = first, last do
    holders[#holders + 1] = holder
    read_keys[#read_keys + 1] = readers.key_of(lock, holder, number)
  end
  if last < count then left = left .. '\n' .. holder .. ' ' .. math.max(first, last + 1) end
end
local found = lib.grant.with_token(lock, asked_token, holders, read_keys)[1]
if found then return {found[1], ''} end
if left == '' and cursor == '0' then return {'', ''} end
return {'', cursor .. left}
