-- Withdraws one attempt on a semaphore or a latch, because its client hung up before the answer
-- or its outcome is unknown: the permits that it acquired, or its entry among the waiters. Does
-- nothing when a later request with the key was answered with these permits.
--
-- KEYS semaphore idempotency waiters deleted
-- ARGV attempt
-- sync no
--
--   idempotency  the effect of the request's idempotency key
--   deleted      the mark of the last deletion, with the TTL of an effect of that time
--
-- Reply  1: permits were released; 0: the attempt had acquired none
-- modules
call('zrem', waiters, attempt) -- a write that is always allowed
local past = lib.counter.recall(idempotency)
if not past or past.attempt ~= attempt then return 0 end
-- The TTL of the mark is read first: before Redis 7 time goes on within a script.
local mark_left = call('pttl', deleted)
local is_older = call('pttl', idempotency) <= mark_left
call('del', idempotency)
if past.answer == '' or past.taken == '0' then return 0 end
-- A semaphore that is gone gets no permits: they would make it anew, without a TTL. Nor does a
-- semaphore that was made anew: the permits were those of the deleted one.
if is_older or call('exists', semaphore) == 0 then return 0 end
lib.permit.add_free(semaphore, past.taken)
return 1
