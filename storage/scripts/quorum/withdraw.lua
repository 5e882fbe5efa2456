-- Withdraws the votes of one attempt, and its entry among the waiters. An unclaimed vote is
-- undone with its effect on the fencing counter, unless a later vote has raised that. Does
-- nothing when the lease is claimed or holds by another attempt.
--
-- KEYS as ../withdraw.lua
-- ARGV as ../withdraw.lua [quiet] [last_round]
-- sync no
--
--   attempt     `<worker>.<number>`, without a round
--   quiet       "1": publishes no unlock message, for the attempt had no majority
--   last_round  only a vote of this round or an earlier one is withdrawn, and no entry among
--               the waiters: the attempt goes on; missing: whatever the round
--
-- Reply  those of withdraw.lua: 1: a vote was undone; 0: there was none; 2: the lease is
--        claimed, or holds by another attempt or a later round
-- The first write is one that Redis allows when memory is short.
-- modules lock read write
local leases, votes = lib.lease, lib.vote
local lease = lib.record.load(lease_id)
if not lease or lease.state == 'ended' or lib.record.mismatch(lease, false) then return 0 end
if lease.state == 'waiting' then
  if not last_round then lib.waiting.withdraw(lease, attempt) end
  return 0
end
local own, round = votes.attempt_of(lease)
if own ~= attempt then return 2 end
if last_round and round > tonumber(last_round) then return 2 end
local counters, was = {}, {}
for i = 1, #lease.locks do
  counters[i], was[i] = votes.counter_of(lease, i), votes.was_of(lease, i)
end

-- No client could have got the lock meanwhile, so none is woken.
if quiet == '1' then
  local run = call
  call = function(name, ...) return name == 'publish' and 0 or run(name, ...) end
end
local is_whole = leases.holds_of(lease)
leases.release(lease)
local reason = votes.spent_of(lease)
if not is_whole then -- its hold has ended here: the mark of that goes, that of an end stays
  if not reason and leases.loss_reason(lease) ~= 'forced' then
    call('del', unpack(lease.keys))
  end
  return 0
end

for i, name in ipairs(lease.locks) do
  local counter = lib.keys.counter_of(name)
  if counters[i] == tonumber(lease.tokens[i]) then
    if was[i] == 0 then
      call('del', counter)
    else
      call('set', counter, votes.token_text(was[i]), 'keepttl')
    end
  end
end
if reason then
  leases.spend(lease.keys, reason, window_ms)
else
  call('del', unpack(lease.keys))
end
return 1
