-- The next holder of a lock or permit that a release frees: a waiter of the same worker.

-- The session and the kind of a lease that holds and has no owner, from its record; nil:
-- another lease.
local function held(text)
  return string.match(text, '^held\n.*\n([^\n]*)\n[^\n]*\n%d*\n1?\n(%l+)\n$')
end

-- The fencing token of a lease that holds, from its record; "" if the record has none.
local function token_in(text)
  return string.match(text, '\n(%d*)\n1?\n%l+\n$') or ''
end

-- Whether the waiter whose record is to become `text` may be granted anything: the text before
-- and behind its fencing token, and the kind of its lease; nil: it may not. A waiter that hung
-- up, was withdrawn, or whose session has ended is none by now; a token that was seen
-- (`unseen`: it must not be), and two requests with one token, are granted by an attempt.
local function find(text, record, unseen)
  local head, start, tail, kind =
    string.match(text, '^(held(\n\n[^\n]*\n).*\n)(\n1?\n(%l+)\n)$')
  if not head then return nil end
  if unseen == '1' then
    if call('exists', record) == 1 then return nil end
  else
    local waiting = try('get', record)
    if type(waiting) ~= 'string' or
      string.sub(waiting, 1, 7 + #start) ~= 'waiting' .. start then
      return nil
    end
  end
  return head, tail, kind
end

-- Whether more than `most` clients, those of the server itself, listen to the channel, or may.
local function others_listen(channel, most)
  local listeners = try('pubsub', 'numsub', channel)
  return listeners.err or listeners[2] > most
end

return {held = held, token_in = token_in, find = find, others_listen = others_listen}
