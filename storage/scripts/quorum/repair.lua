-- Gives this node a lease that a majority has just renewed or claimed, and that this node lacks
-- (R2): hold, record and fencing token, unless the lease is spent here, its session is over, a
-- lock of it is held, or the node's clock has passed the deadline. A hold that is older than
-- the node's process is confirmed instead, if it has the token. A hold with another token, of a
-- vote that no majority has joined, gets the token. Works in quarantine.
--
-- KEYS as ../acquire.lua ...
-- ARGV as ../acquire.lua to fencing_ttl_ms token deadline_ms
-- sync no
--
--   KEYS         those of vote.lua
--   ttl_ms       of the hold here: what the lease has left
--   record_text  without an attempt: the record that the majority has
--   token        of the lease, for each of its locks
--   deadline_ms  epoch ms of the node's clock: its now_ms of the reply that named the node, and
--                what the lease had left then, less the drift
--
-- For a lease of a session session_bind.lua runs before this script, with the attempt `*`.
--
-- Reply  1: the node has the lease now | 0: it had it, or may not have it
-- modules lock read write
local requests, leases, votes = lib.request, lib.lease, lib.vote
if lib.number.epoch_ms() >= tonumber(deadline_ms) then return 0 end
local request = requests.read(lease_id, ttl_ms, record_text, keep_ms, '', '', '')
local old, number = request.old, tonumber(token)
request.attempt = '' -- claimed
if old and (old.state == 'ended' or votes.spent_of(old)) then return 0 end
if old and lib.record.is_other(old, request) then return 0 end

if old and old.state == 'held' and leases.holds_of(old) then
  -- It has the lease; or data of before with another token, which end by their time.
  if votes.is_confirmed(old) == (old.tokens[1] == token) then return 0 end
  request.keep = lib.number.integer(math.max(keep_ms, call('pttl', old.keys[1])))
  votes.write(request, number, nil, fencing_ttl_ms)
  votes.extend(request)
  return 1
end
if old and old.state == 'held' and leases.loss_reason(old) == 'forced' then return 0 end
if votes.unbound(request) then return 0 end
local refusal, found = votes.refusal(request)
if refusal then return 0 end
votes.write(request, number, nil, fencing_ttl_ms)
votes.take(request, found)
return 1
